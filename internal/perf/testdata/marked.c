/* A loop of package perf over a device that takes everything and completes it at once, for
 * TestInstructionsOfMarks: without a tracer, so that no operation is marked.
 *
 *     marked bw|lat MESSAGES EACH
 *
 * EACH: of so many messages one asks for a completion. */
#include "../loop.h"

#include <stdlib.h>
#include <string.h>

static uint64_t completed[4096]; /* ids */
static unsigned first, last;

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp, (void)bad;
	for (; wr; wr = wr->next)
		if (wr->send_flags & IBV_SEND_SIGNALED)
			completed[last++ % 4096] = wr->wr_id;
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int i;

	(void)cq;
	for (i = 0; i < n && first != last; i++)
		wc[i] = (struct ibv_wc){.wr_id = completed[first++ % 4096], .status = IBV_WC_SUCCESS};
	return i;
}

#if PF_MARKS
static uint32_t semaphore;
static void site(struct pf_mark *m) { (void)m; }
#endif

int main(int argc, char **argv)
{
	struct ibv_context device = {.ops = {.post_send = post_send, .poll_cq = poll_cq}};
	struct ibv_qp qp = {.context = &device};
	struct ibv_cq cq = {.context = &device};
	struct pf_control control = {.target = PF_UNKNOWN, .wake_fd = -1};
	static struct ibv_send_wr ring[128];
	static struct ibv_sge sge = {.length = 8};
	struct pf_queue q = {.qp = &qp, .wr = ring, .ring = 128};
	struct pf_run r = {.control = &control, .q = &q, .queues = 1, .scq = &cq, .timeout_ns = 1000000000, .depth = 128, .list = 1, .first = 1};
	int rc;

	if (argc != 4)
		return 2;
	for (int i = 0; i < 128; i++)
		ring[i] = (struct ibv_send_wr){.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
	r.iters = strtoull(argv[2], NULL, 10);
	r.cq_mod = strtoull(argv[3], NULL, 10);
#if PF_MARKS
	r.marks = (struct pf_marks){.semaphore = &semaphore, .post = site, .complete = site};
#endif
	__asm__ volatile("int3");
	rc = strcmp(argv[1], "lat") ? pf_bw(&r) : pf_lat_single(&r);
	__asm__ volatile("int3");
	return rc != PF_DONE || r.sent != r.iters;
}
