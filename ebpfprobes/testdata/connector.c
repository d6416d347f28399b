/* Takes queue pairs through their states: what the tracer has to see.
 * Usage: connector DEVICE rc|ud COUNT
 * It prints "ready", goes on when it reads a line, prints each queue pair's number, and
 * ends when its input does. Each queue pair goes RESET INIT RTR RTS, is refused a change
 * back to INIT, and goes to ERR and RESET. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *what)
{
	fprintf(stderr, "connector: %s: %s\n", what, strerror(errno));
	exit(1);
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

static void change(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask, const char *to)
{
	errno = ibv_modify_qp(qp, a, mask);
	if (errno)
		die(to);
}

static void walk(struct ibv_pd *pd, struct ibv_cq *cq, int rc, union ibv_gid gid)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = rc ? IBV_QPT_RC : IBV_QPT_UD,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	if (!qp)
		die("ibv_create_qp");
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x1111 };
	int state = IBV_QP_STATE;

	change(qp, &a, state | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (rc ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY), "INIT");
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num, .rq_psn = 1, .min_rnr_timer = 12,
		.max_dest_rd_atomic = 1, .ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .sgid_index = 1, .hop_limit = 1 } },
	};
	change(qp, &a, rc ? state | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : state, "RTR");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .sq_psn = 1, .max_rd_atomic = 1 };
	change(qp, &a, rc ? state | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
	       IBV_QP_MAX_QP_RD_ATOMIC : state | IBV_QP_SQ_PSN, "RTS");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1 };
	int refused = ibv_modify_qp(qp, &a, state | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (rc ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY));
	if (!refused)
		die("a change from RTS to INIT was not refused");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR };
	change(qp, &a, state, "ERR");
	a.qp_state = IBV_QPS_RESET;
	change(qp, &a, state, "RESET");
	printf("qp %u refused %d\n", qp->qp_num, refused);
	ibv_destroy_qp(qp);
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "usage: connector DEVICE rc|ud COUNT\n");
		return 2;
	}
	struct ibv_context *c = open_device(argv[1]);
	if (!c)
		die(argv[1]);
	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_cq *cq = ibv_create_cq(c, 16, NULL, NULL, 0);
	union ibv_gid gid;
	int rc = !strcmp(argv[2], "rc");
	if (!pd || !cq || ibv_query_gid(c, 1, rc, &gid))
		die("setting up");
	puts("ready");
	fflush(stdout);
	if (getchar() == EOF)
		return 1;
	for (int i = atoi(argv[3]); i > 0; i--)
		walk(pd, cq, rc, gid);
	fflush(stdout);
	getchar();
	return 0;
}
