#include "steps.h"

/* marker.Interval, and the operations that pass at most. */
#define INTERVAL_NS 500000u
#define MOST_PASSED 8192u

/* Marks a request that is about to be posted if it is due, in its id too; then the result
 * is 1. */
static int mark_post(struct pf_marks *m, const struct ibv_qp *qp, struct ibv_send_wr *wr, uint64_t sequence)
{
	uint32_t covers = ID_COVERS(wr->wr_id);
	uint64_t now, each;

	m->passed += covers;
	if (m->waiting || m->left >= covers) {
		m->left -= m->left < covers ? m->left : covers;
		return 0;
	}
	now = pf_now_ns();
	each = now - m->posted ? m->passed * INTERVAL_NS / (now - m->posted) : MOST_PASSED;
	if (each > MOST_PASSED)
		each = MOST_PASSED;
	m->left = each ? each - 1 : 0;
	m->mark.id = sequence;
	m->mark.bytes = (uint64_t)wr->sg_list->length * wr->num_sge;
	m->mark.qp = qp->qp_num;
	m->mark.opcode = wr->opcode;
	m->mark.passed = m->passed - 1;
	m->passed = 0;
	m->waiting = 1;
	wr->wr_id |= PF_MARKED;
	m->post(&m->mark);
	m->posted = pf_now_ns();
	return 1;
}

static void mark_complete(struct pf_marks *m, uint32_t status)
{
	m->mark.ns = pf_now_ns() - m->posted;
	m->mark.status = status;
	m->waiting = 0;
	m->complete(&m->mark);
}

int pf_post_marked(struct pf_marks *m, struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr *tail, uint64_t sequence)
{
	struct ibv_send_wr *bad;
	int marked = mark_post(m, qp, tail, sequence), rc = ibv_post_send(qp, wr, &bad);

	if (marked) {
		tail->wr_id &= ~PF_MARKED; /* a request that asks for no completion keeps its id */
		if (rc)
			mark_complete(m, PF_NOT_TAKEN);
	}
	return rc;
}

void pf_mark_completions(struct pf_marks *m, struct ibv_wc *wc, int n)
{
	int i;

	for (i = 0; i < n; i++)
		if (wc[i].wr_id & PF_MARKED) {
			wc[i].wr_id &= ~PF_MARKED;
			mark_complete(m, wc[i].status);
		}
}
