/* What posting and polling cost in libefa's own code, without a device: the peer
 * of BenchmarkPost and BenchmarkPoll. It compiles the provider's verbs.c into
 * itself, lays its queues over ordinary memory, and writes the completions that
 * a device would. Nothing of rdma-core is copied here; it is compiled from where
 * its source and build folder are:
 *
 *   gcc -O2 -DNDEBUG -I$SOURCE/providers/efa -I$SOURCE -I$BUILD/include benchring.c -L$BUILD/lib -libverbs
 *   benchring BATCH 64BIT ROUNDS
 *
 * A round fills the queue, batch by batch, and then takes all completions, batch
 * by batch. It prints the least nanoseconds an operation, of all rounds, of
 * posting and of polling: "post poll". Compiled with -DLOCKS=0 the queues are of
 * a thread domain and do not lock. With -DOPS=256 -DBREAK='__asm__ volatile("int3")'
 * a round is short and marks both its parts for a counter of instructions.
 */
#define _GNU_SOURCE
#include <time.h>
#include "verbs.c"

#ifndef LOCKS
#define LOCKS 1
#endif
#ifndef OPS
#define OPS DEPTH
#endif
#ifndef BREAK
#define BREAK
#endif

bool is_efa_dev(struct ibv_device *device) { return device; }

enum { DEPTH = 4096, CQ_DEPTH = 4 * DEPTH, QPN = 7 };

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static void *zeroed(size_t n)
{
	void *p = aligned_alloc(4096, (n + 4095) / 4096 * 4096);

	memset(p, 0, n);
	return p;
}

static uint32_t doorbell;

/* Completions of the n requests that were posted last. */
static void device(struct efa_cq *cq, struct efa_wq *wq, int n)
{
	struct efa_sub_cq *sub = cq->sub_cq_arr;
	uint16_t at = sub->consumed_cnt;
	int phase = sub->phase;

	for (int i = 0; i < n; i++, at++) {
		struct efa_io_rx_cdesc_ex *e = (void *)(sub->buf + (at & sub->qmask) * 32);
		uint64_t id = i;

		if (i && !(at & sub->qmask))
			phase = 1 - phase;
		if (!wq->req_id_64_bit)
			id = wq->wrid_idx_pool[wq->wrid_idx_pool_next - n + i] | wq->shifted_gen;
		memset(e, 0, sizeof(*e));
		e->base.common.req_id = id;
		e->base.common.qp_num = QPN;
		e->base.common.flags = phase | EFA_IO_SEND_QUEUE << 1 | EFA_IO_RDMA_WRITE << 4;
	}
}

int main(int argc, char **argv)
{
	int batch = atoi(argv[1]), wide = atoi(argv[2]), rounds = atoi(argv[3]);
	struct efa_context *ctx = zeroed(sizeof(*ctx));
	struct efa_cq *cq = zeroed(sizeof(*cq) + sizeof(*cq->sub_cq_arr));
	struct efa_qp *qp = zeroed(sizeof(*qp));
	struct efa_ah *ah = zeroed(sizeof(*ah));
	struct ibv_cq_init_attr_ex ca = {.wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_qp_init_attr_ex qa = {.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE};
	struct efadv_cq_init_attr eca = {};
	struct efadv_qp_init_attr eqa = {};
	struct efa_wq *wq = &qp->sq.wq;
	double least_post = 1e9, least_poll = 1e9;

	(void)argc;
	ctx->qp_table = zeroed(sizeof(*ctx->qp_table) * 256);
	ctx->qp_table_sz_m1 = 255;
	ctx->qp_table[QPN] = qp;

	cq->verbs_cq.cq.context = &ctx->ibvctx.context;
	cq->num_sub_cqs = 1;
	pthread_spin_init(&cq->lock, 0);
	efa_sub_cq_initialize(cq->sub_cq_arr, zeroed(CQ_DEPTH * 32), CQ_DEPTH, 32);
	if (!LOCKS)
		ca.flags |= IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	efa_cq_fill_pfns(cq, &ca, &eca);

	qp->verbs_qp.qp.context = &ctx->ibvctx.context;
	qp->verbs_qp.qp.qp_num = QPN;
	qp->verbs_qp.qp.state = IBV_QPS_RTS;
	qp->sq.wqe_size = 64;
	wq->wqe_cnt = DEPTH;
	wq->desc_mask = DEPTH - 1;
	wq->max_sge = 1;
	wq->req_id_64_bit = wide;
	wq->need_lock = LOCKS;
	pthread_spin_init(&wq->wqlock, 0);
	wq->gen_mask = ~(DEPTH - 1);
	wq->shifted_gen = 1 << 12;
	wq->wrid = zeroed(DEPTH * sizeof(*wq->wrid));
	wq->wrid_idx_pool = zeroed(DEPTH * sizeof(*wq->wrid_idx_pool));
	for (int i = 0; i < DEPTH; i++)
		wq->wrid_idx_pool[i] = i;
	wq->db = &doorbell;
	qp->sq.desc = zeroed(DEPTH * 64);
	qp->sq.local_queue = zeroed(DEPTH * 64);
	qp->sq.max_batch_wr = DEPTH;
	qp->sq.max_wr_rdma_sge = 1;
	efa_qp_fill_wr_pfns(qp, &qa, &eqa, 64);
	ah->efa_ah = 3;

	struct ibv_qp_ex *ex = &qp->verbs_qp.qp_ex;
	struct ibv_cq_ex *cqx = &cq->verbs_cq.cq_ex;
	volatile uint64_t sum = 0;

	for (int r = 0; r < rounds; r++) {
		double start = now(), took;

		BREAK;
		for (int k = 0; k < OPS / batch; k++) {
			ibv_wr_start(ex);
			for (int i = 0; i < batch; i++) {
				ex->wr_id = i;
				ex->wr_flags = IBV_SEND_SIGNALED;
				ibv_wr_rdma_write(ex, 78, 8192);
				ibv_wr_set_sge(ex, 77, 4096, 8);
				ibv_wr_set_ud_addr(ex, &ah->ibvah, 9, 0x1234);
			}
			if (ibv_wr_complete(ex))
				return 1;
		}
		BREAK;
		took = now() - start;
		if (took < least_post)
			least_post = took;

		device(cq, wq, OPS);
		start = now();
		BREAK;
		for (int k = 0; k < OPS / batch; k++) {
			struct ibv_poll_cq_attr pa = {0};
			int got = 0;
			uint64_t s = 0;

			if (ibv_start_poll(cqx, &pa))
				return 2;
			do {
				s += cqx->wr_id + cqx->status + ibv_wc_read_qp_num(cqx) + ibv_wc_read_opcode(cqx);
				got++;
			} while (got < batch && !ibv_next_poll(cqx));
			ibv_end_poll(cqx);
			sum += s;
			if (got != batch)
				return 3;
		}
		BREAK;
		took = now() - start;
		if (took < least_poll)
			least_poll = took;
	}
	printf("%f %f\n", least_post / OPS, least_poll / OPS);
	return 0;
}
