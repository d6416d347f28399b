/* What posting and polling cost through libefa from C: the peer of the lab's
 * benchmark (bench_lab_test.go).
 *
 *   benchwr DEVICE BATCH ROUNDS
 *
 * An SRD queue pair writes 8 bytes at a time to itself. Each round posts BATCH
 * writes through ibv_wr_*, waits until they must have completed, and polls them
 * through ibv_start_poll and its kin; both are timed. It prints the medians in
 * nanoseconds an operation: "post POLL".
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <infiniband/efadv.h>
#include <infiniband/verbs.h>

#define CHECK(x)                                                               \
	do {                                                                   \
		if (!(x)) {                                                    \
			perror(#x);                                            \
			exit(1);                                               \
		}                                                              \
	} while (0)

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	int batch = atoi(argv[2]), rounds = atoi(argv[3]), n, i;
	struct ibv_device **list = ibv_get_device_list(&n);
	struct ibv_context *ctx = NULL;
	static char mem[4096] __attribute__((aligned(4096)));
	double post[rounds], poll[rounds];

	(void)argc;
	for (i = 0; i < n; i++)
		if (!strcmp(ibv_get_device_name(list[i]), argv[1]))
			CHECK(ctx = ibv_open_device(list[i]));
	CHECK(ctx);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	CHECK(pd);
	struct ibv_mr *mr = ibv_reg_mr(pd, mem, sizeof(mem), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(mr);
	struct ibv_cq_init_attr_ex ca = {.cqe = 4096, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(ctx, &ca);
	CHECK(cq);
	struct ibv_qp_init_attr_ex qa = {
		.send_cq = ibv_cq_ex_to_cq(cq),
		.recv_cq = ibv_cq_ex_to_cq(cq),
		.cap = {.max_send_wr = 1024, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_DRIVER,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct efadv_qp_init_attr ea = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD};
	struct ibv_qp *qp = efadv_create_qp_ex(ctx, &qa, &ea, sizeof(ea));
	CHECK(qp);
	struct ibv_qp_attr m = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x1234};
	CHECK(!ibv_modify_qp(qp, &m, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	m.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &m, IBV_QP_STATE));
	m.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &m, IBV_QP_STATE | IBV_QP_SQ_PSN));
	struct ibv_ah_attr aa = {.is_global = 1, .port_num = 1};
	CHECK(!ibv_query_gid(ctx, 1, 0, &aa.grh.dgid));
	struct ibv_ah *ah = ibv_create_ah(pd, &aa);
	CHECK(ah);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	for (int r = 0; r < rounds; r++) {
		double start = now();

		ibv_wr_start(ex);
		for (i = 0; i < batch; i++) {
			ex->wr_id = i;
			ex->wr_flags = IBV_SEND_SIGNALED;
			ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)mem + 2048);
			ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)mem, 8);
			ibv_wr_set_ud_addr(ex, ah, qp->qp_num, 0x1234);
		}
		CHECK(!ibv_wr_complete(ex));
		post[r] = now() - start;

		usleep(5000 + 50 * batch);
		int got = 0, late = 0;
		uint64_t sum = 0;

		start = now();
		while (got < batch) {
			struct ibv_poll_cq_attr pa = {0};

			if (ibv_start_poll(cq, &pa)) {
				late = 1;
				continue;
			}
			do {
				CHECK(cq->status == IBV_WC_SUCCESS);
				sum += cq->wr_id + ibv_wc_read_qp_num(cq) + ibv_wc_read_opcode(cq);
				got++;
			} while (got < batch && !ibv_next_poll(cq));
			ibv_end_poll(cq);
		}
		poll[r] = now() - start;
		start = now();
		double clock = now() - start; /* what reading it costs is no part of either */
		post[r] = (post[r] - clock) / batch;
		poll[r] = (poll[r] - clock) / batch;
		if (late || !sum) {
			r--; /* it was not there yet: that measures the device */
			continue;
		}
	}
	qsort(post, rounds, sizeof(*post), by_value);
	qsort(poll, rounds, sizeof(*poll), by_value);
	printf("%f %f\n", post[rounds / 2], poll[rounds / 2]);
	return 0;
}
