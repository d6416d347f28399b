/* Moves messages between two queue pairs of one device, one at a time, with its own
 * stopwatch from posting to the completion: what the tracer's figures are held against.
 * Usage: poller DEVICE rc|srd poll|pairs|extended|events|flush LENGTH COUNT
 *   poll      struct ibv_cq, polled by ibv_poll_cq
 *   pairs     the same, two at a time that have one id (rc)
 *   extended  struct ibv_cq_ex, and ibv_wr_*() in place of ibv_post_send
 *   events    sleeps for each completion (rc: ibv_get_cq_event)
 *   flush     ends with COUNT work requests that complete in error
 * It prints "ready" and goes on when it reads a line, and once more at its end. Then it
 * prints: completions COUNT MEDIAN_NS empty POLLS events EVENTS errors ERRORS */
#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/efadv.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void die(const char *what)
{
	fprintf(stderr, "poller: %s: %s\n", what, strerror(errno));
	exit(1);
}

static long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
	long x = *(const long *)a, y = *(const long *)b;

	return x < y ? -1 : x > y;
}

static struct ibv_context *open_device(const char *name)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	for (int i = 0; list && i < n; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			return ibv_open_device(list[i]);
	return NULL;
}

static int srd, extended;
static struct ibv_context *context;
static struct ibv_pd *pd;
static union ibv_gid gid;
static int gid_index;

static struct ibv_qp *make_qp(struct ibv_cq *sends, struct ibv_cq *receives)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = sends, .recv_cq = receives, .qp_type = srd ? IBV_QPT_DRIVER : IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd,
	};
	struct efadv_qp_init_attr ea = { .driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD };

	if (extended) {
		a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		a.send_ops_flags = IBV_QP_EX_WITH_SEND | (srd ? 0 : IBV_QP_EX_WITH_RDMA_WRITE);
	}
	struct ibv_qp *qp = srd ? efadv_create_qp_ex(context, &a, &ea, sizeof(ea)) : ibv_create_qp_ex(context, &a);
	if (!qp)
		die("create queue pair");
	return qp;
}

static void connect_qp(struct ibv_qp *qp, uint32_t to)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x11,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE,
	};
	struct ibv_port_attr port;

	if (ibv_query_port(context, 1, &port))
		die("query port");
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (srd ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)))
		die("to INIT");
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = port.active_mtu;
	a.dest_qp_num = to;
	a.max_dest_rd_atomic = 1;
	a.min_rnr_timer = 12;
	a.ah_attr = (struct ibv_ah_attr){ .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 1 } };
	if (ibv_modify_qp(qp, &a, srd ? IBV_QP_STATE : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		die("to RTR");
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 14;
	a.retry_cnt = a.rnr_retry = 7;
	a.max_rd_atomic = 1;
	if (ibv_modify_qp(qp, &a, srd ? IBV_QP_STATE | IBV_QP_SQ_PSN : IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		die("to RTS");
}

static struct ibv_mr *mr;
static struct ibv_ah *ah;
static uint32_t target_qp;

static void post(struct ibv_qp *qp, uint64_t id, uint32_t length)
{
	if (extended) {
		struct ibv_qp_ex *q = ibv_qp_to_qp_ex(qp);

		ibv_wr_start(q);
		q->wr_id = id;
		q->wr_flags = IBV_SEND_SIGNALED;
		if (srd) {
			ibv_wr_send(q);
			ibv_wr_set_ud_addr(q, ah, target_qp, 0x11);
		} else {
			ibv_wr_rdma_write(q, mr->rkey, (uintptr_t)mr->addr + length);
		}
		ibv_wr_set_sge(q, mr->lkey, (uintptr_t)mr->addr, length);
		if (ibv_wr_complete(q))
			die("ibv_wr_complete");
		return;
	}
	struct ibv_sge s = { .addr = (uintptr_t)mr->addr, .length = length, .lkey = mr->lkey };
	struct ibv_send_wr w = { .wr_id = id, .sg_list = &s, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED }, *bad;
	if (srd) {
		w.opcode = IBV_WR_SEND;
		w.wr.ud.ah = ah;
		w.wr.ud.remote_qpn = target_qp;
		w.wr.ud.remote_qkey = 0x11;
	} else {
		w.opcode = IBV_WR_RDMA_WRITE;
		w.wr.rdma.remote_addr = (uintptr_t)mr->addr + length;
		w.wr.rdma.rkey = mr->rkey;
	}
	if (ibv_post_send(qp, &w, &bad))
		die("ibv_post_send");
}

static void post_receive(struct ibv_qp *qp, uint64_t id, uint32_t length)
{
	struct ibv_sge s = { .addr = (uintptr_t)mr->addr + length, .length = length, .lkey = mr->lkey };
	struct ibv_recv_wr w = { .wr_id = id, .sg_list = &s, .num_sge = 1 }, *bad;

	if (ibv_post_recv(qp, &w, &bad))
		die("ibv_post_recv");
}

static long empty, errors;

/* One completion of either kind of queue, of which the id is given. */
static uint64_t complete(struct ibv_cq *cq)
{
	uint64_t id;
	int status;

	if (extended) {
		struct ibv_cq_ex *x = (struct ibv_cq_ex *)cq;
		struct ibv_poll_cq_attr none = {};
		int e;

		while ((e = ibv_start_poll(x, &none)) == ENOENT)
			empty++;
		if (e)
			die("ibv_start_poll");
		id = x->wr_id;
		status = x->status;
		/* Asking for a next one is up to the program, and rxe of rdma-core 44 always has one. */
		if (srd && ibv_next_poll(x) != ENOENT)
			die("a second completion");
		ibv_end_poll(x);
	} else {
		struct ibv_wc wc;
		int n;

		while (!(n = ibv_poll_cq(cq, 1, &wc)))
			empty++;
		if (n < 0)
			die("ibv_poll_cq");
		id = wc.wr_id;
		status = wc.status;
	}
	if (status)
		errors++;
	return id;
}

int main(int argc, char **argv)
{
	if (argc != 6) {
		fprintf(stderr, "usage: poller DEVICE rc|srd poll|pairs|extended|events|flush LENGTH COUNT\n");
		return 2;
	}
	int sleeps = !strcmp(argv[3], "events"), pairs = !strcmp(argv[3], "pairs"), flush = !strcmp(argv[3], "flush");
	uint32_t length = strtoul(argv[4], NULL, 0);
	long count = strtol(argv[5], NULL, 0), events = 0;
	srd = !strcmp(argv[2], "srd");
	extended = !strcmp(argv[3], "extended");
	context = open_device(argv[1]);
	if (!context)
		die(argv[1]);
	for (gid_index = srd ? 0 : 1; ibv_query_gid(context, 1, gid_index, &gid) == 0 && !gid.global.interface_id;)
		gid_index++;
	pd = ibv_alloc_pd(context);
	char *memory = aligned_alloc(4096, 1 << 20);
	memset(memory, 0, 1 << 20);
	mr = ibv_reg_mr(pd, memory, 1 << 20, IBV_ACCESS_LOCAL_WRITE | (srd ? 0 : IBV_ACCESS_REMOTE_WRITE));
	struct ibv_comp_channel *channel = sleeps ? ibv_create_comp_channel(context) : NULL;
	struct ibv_cq_init_attr_ex ca = { .cqe = 256, .wc_flags = IBV_WC_STANDARD_FLAGS & ~(srd ? IBV_WC_EX_WITH_DLID_PATH_BITS : 0) };
	struct ibv_cq *cq, *receives;
	if (extended) {
		ca.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM;
		cq = (struct ibv_cq *)ibv_create_cq_ex(context, &ca);
		receives = (struct ibv_cq *)ibv_create_cq_ex(context, &ca);
	} else {
		cq = ibv_create_cq(context, 256, NULL, channel, 0);
		receives = ibv_create_cq(context, 256, NULL, NULL, 0);
	}
	if (!mr || !cq || !receives)
		die("region or completion queue");
	struct ibv_qp *from = make_qp(cq, receives), *to = make_qp(receives, receives);
	connect_qp(from, to->qp_num);
	connect_qp(to, from->qp_num);
	target_qp = to->qp_num;
	if (srd) {
		struct ibv_ah_attr a = { .is_global = 1, .port_num = 1, .grh.dgid = gid };
		if (!(ah = ibv_create_ah(pd, &a)))
			die("create address handle");
		for (int i = 0; i < 32; i++)
			post_receive(to, 1000 + i, 8192);
	}
	long *took = calloc(count, sizeof(long));
	memset(took, 1, count * sizeof(long)); /* no page faults beside the stopwatch */
	puts("ready");
	fflush(stdout);
	if (getchar() == EOF)
		return 1;
	if (flush) {
		struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
		if (ibv_modify_qp(from, &a, IBV_QP_STATE))
			die("to ERR");
	}
	for (long i = 0; i < count; i++) {
		if (sleeps && ibv_req_notify_cq(cq, 0))
			die("ibv_req_notify_cq");
		long t0 = now();
		post(from, i % 64, length);
		if (pairs) {
			post(from, i % 64, length);
			complete(cq);
		}
		if (sleeps) {
			struct ibv_cq *which;
			void *unused;
			if (ibv_get_cq_event(channel, &which, &unused))
				die("ibv_get_cq_event");
			ibv_ack_cq_events(which, 1);
			events++;
		}
		if (complete(cq) != (uint64_t)(i % 64))
			die("another completion than the one posted");
		took[i] = now() - t0;
		if (srd)
			post_receive(to, complete(receives), 8192);
	}
	qsort(took, count, sizeof(long), ascending);
	printf("completions %ld %ld empty %ld events %ld errors %ld\n", count, took[count / 2], empty, events, errors);
	fflush(stdout);
	getchar();
	return 0;
}
