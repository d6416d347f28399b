/* The steps that the loops of bw.c and lat.c are made of, inline: they run for
 * every message. */
#ifndef PEERDIRECT_PERF_STEPS_H
#define PEERDIRECT_PERF_STEPS_H

#include "loop.h"

#include <errno.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/* pf_rest is called in a round that found nothing. Without channels it is
 * pf_idle. With them, when armed comes in as 0, the queues are armed and the
 * caller polls once more, since what arrived before raises no event; then it
 * sleeps. */
int pf_rest(struct pf_run *r, struct pf_wait *w, int *armed);

/* Hands the events taken back to the library, at the end of a loop. */
void pf_acknowledge(struct pf_run *r);

/* The cheapest clock there is: a system call a stamp, which is what
 * clock_gettime costs on some virtual machines, would show in the latency. */
static inline uint64_t ticks(void)
{
#if defined(__x86_64__)
	return __rdtsc();
#elif defined(__aarch64__)
	uint64_t t;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
	return t;
#else
	return pf_now_ns();
#endif
}

static inline int post_failed(struct pf_run *r, int err)
{
	r->err = err < 0 ? -err : err;
	return PF_POST;
}

static inline int poll_failed(struct pf_run *r, int n)
{
	r->err = n == -1 ? EIO : -n;
	return PF_POLL;
}

static inline int wc_failed(struct pf_run *r, const struct ibv_wc *wc)
{
	/* Requests without a completion of their own have no id either: the
	 * number of those that went well tells more. */
	r->wc_done = r->sent + r->received;
	r->wc_status = wc->status;
	r->wc_vendor = wc->vendor_err;
	r->wc_qpn = wc->qp_num;
	return PF_WC;
}

/* A receive that was consumed is posted again; the ring keeps their order. */
static inline int repost(struct pf_run *r, struct pf_queue *q)
{
	struct ibv_recv_wr *bad;
	int rc = ibv_post_recv(q->qp, &q->rwr[q->rnext], &bad);

	if (rc)
		return post_failed(r, rc);
	if (++q->rnext == q->rring)
		q->rnext = 0;
	return PF_DONE;
}

/* The request's id tells its queue and how many sends its completion stands
 * for, so that unsignalled ones need no bookkeeping. */
#define ID(queue, covers) ((uint64_t)(queue) << 32 | (covers))
#define ID_QUEUE(id) ((uint32_t)((id) >> 32))
#define ID_COVERS(id) ((uint32_t)(id))

/* Posts one group of list requests. last asks for a completion in any case. */
static inline __attribute__((always_inline)) int post_group(struct pf_run *r, uint32_t index, int last)
{
	struct pf_queue *q = &r->q[index];
	struct ibv_send_wr *wr = &q->wr[q->next], *tail = wr + r->list - 1, *bad;
	int marking = 0, rc;

	q->since += r->list;
	if (last || q->since >= r->cq_mod) {
		tail->send_flags = r->flags | IBV_SEND_SIGNALED;
		tail->wr_id = ID(index, q->since);
		q->since = 0;
		marking = pf_marking(&r->marks);
	} else {
		tail->send_flags = r->flags;
	}
	rc = marking ? pf_post_marked(&r->marks, q->qp, wr, tail, q->posted + r->list - 1) : ibv_post_send(q->qp, wr, &bad);
	if (rc)
		return post_failed(r, rc);
	q->next += r->list;
	if (q->next == q->ring)
		q->next = 0;
	q->posted += r->list;
	q->sent_ever += r->list;
	return PF_DONE;
}

static inline int has_credit(const struct pf_run *r, const struct pf_queue *q)
{
	return !q->credit || q->sent_ever + r->list <= *q->credit;
}

/* Shows the peer the room that has come up, in halves of the receive queue. */
static inline int offer(struct pf_run *r, uint32_t index)
{
	struct pf_queue *q = &r->q[index];
	uint64_t room = q->received_ever + q->rring;
	uint32_t half = q->rring / 2 ? q->rring / 2 : 1;
	struct ibv_send_wr *bad;
	int rc;

	if (!q->credit_wr || room - q->offered < half || q->offers == PF_OFFERS)
		return PF_DONE;
	/* An offer that is still on its way may show this value already: there
	 * is room for as many by now. */
	__atomic_store_n(q->offer, room, __ATOMIC_RELEASE);
	q->credit_wr->wr_id = ID(index, 0);
	if ((rc = ibv_post_send(q->qp, q->credit_wr, &bad)))
		return post_failed(r, rc);
	q->offered = room;
	q->offers++;
	return PF_DONE;
}

static inline __attribute__((always_inline)) int drain_sends(struct pf_run *r)
{
	struct ibv_wc wc[PF_BATCH];
	int n = ibv_poll_cq(r->scq, PF_BATCH, wc), i;

	if (n < 0)
		return -poll_failed(r, n);
	if (n && pf_mark_flies(&r->marks))
		pf_mark_completions(&r->marks, wc, n);
	for (i = 0; i < n; i++) {
		uint32_t covers = ID_COVERS(wc[i].wr_id);

		if (wc[i].status != IBV_WC_SUCCESS)
			return -wc_failed(r, &wc[i]);
		if (!covers) {
			r->q[ID_QUEUE(wc[i].wr_id)].offers--;
			continue;
		}
		r->q[ID_QUEUE(wc[i].wr_id)].completed += covers;
		r->sent += covers;
		if (r->done_at)
			r->done_at[r->sent - 1] = ticks();
	}
	return n;
}

static inline int drain_receives(struct pf_run *r)
{
	struct ibv_wc wc[PF_BATCH];
	int n = ibv_poll_cq(r->rcq, PF_BATCH, wc), i, rc;

	if (n < 0)
		return -poll_failed(r, n);
	for (i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			return -wc_failed(r, &wc[i]);
		if ((rc = repost(r, &r->q[wc[i].wr_id])))
			return -rc;
		r->q[wc[i].wr_id].received_ever++;
		if ((rc = offer(r, wc[i].wr_id)))
			return -rc;
	}
	r->received += n;
	return n;
}

#endif
