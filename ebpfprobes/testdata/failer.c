/* Makes calls and work requests that fail: what the tracer has to tell.
 * Usage: failer DEVICE calls|completions|queues
 * It prints "ready", goes on when it reads a line, prints what failed, a line each, then
 * "done", and ends when its input does. */
#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define LENGTH 65536

static struct ibv_pd *pd;
static struct ibv_cq *cq;
static union ibv_gid gid;

static void die(const char *what)
{
	fprintf(stderr, "failer: %s: %s\n", what, strerror(errno));
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

static void registration(void *memory, size_t length, int access, const char *why)
{
	if (ibv_reg_mr(pd, memory, length, access))
		die(why);
	printf("reg mr %d %s\n", errno, why);
}

static struct ibv_qp *make(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = type,
		.cap = { .max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return ibv_create_qp(pd, &init);
}

static void calls(char *memory)
{
	struct ibv_qp *qp = make(IBV_QPT_UD);
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS };

	if (!qp)
		die("ibv_create_qp");
	registration((void *)0x10000, LENGTH, IBV_ACCESS_LOCAL_WRITE, "not mapped");
	registration(memory, LENGTH, IBV_ACCESS_REMOTE_WRITE, "remote without local write");
	printf("modify qp %d from RESET to RTS\n", ibv_modify_qp(qp, &a, IBV_QP_STATE));
	struct rlimit least = { 4096, 4096 };
	if (setrlimit(RLIMIT_MEMLOCK, &least) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		die("giving up privileges");
	registration(memory, LENGTH, IBV_ACCESS_LOCAL_WRITE, "more than RLIMIT_MEMLOCK");
}

/* A send with a key that does not exist, and one behind it. */
static void completions(char *memory)
{
	struct ibv_qp *qp = make(IBV_QPT_RC);
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	if (!qp || ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("INIT");
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num, .min_rnr_timer = 12,
		.max_dest_rd_atomic = 1, .ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .sgid_index = 1, .hop_limit = 1 } },
	};
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		die("RTR");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			  IBV_QP_MAX_QP_RD_ATOMIC))
		die("RTS");
	struct ibv_sge place = { .addr = (unsigned long)memory, .length = 64, .lkey = 0xdead00 };
	struct ibv_send_wr second = { .wr_id = 2, .sg_list = &place, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr first = second, *bad;
	first.wr_id = 1;
	first.next = &second;
	if (ibv_post_send(qp, &first, &bad))
		die("ibv_post_send");
	struct ibv_wc wc;
	for (int got = 0; got < 2;) {
		int n = ibv_poll_cq(cq, 1, &wc);
		if (n < 0)
			die("ibv_poll_cq");
		if (n == 1 && wc.status) {
			printf("completion %d of %u\n", wc.status, qp->qp_num);
			got++;
		}
	}
}

/* More queue pairs than the device has. */
static void queues(void)
{
	for (int i = 0; i < 5000; i++)
		if (!make(IBV_QPT_UD)) {
			printf("create qp %d after %d\n", errno, i);
			return;
		}
	die("5000 queue pairs are not too many");
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: failer DEVICE calls|completions|queues\n");
		return 2;
	}
	struct ibv_context *c = open_device(argv[1]);
	if (!c)
		die(argv[1]);
	char *memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (!(pd = ibv_alloc_pd(c)) || !(cq = ibv_create_cq(c, 16, NULL, NULL, 0)) || memory == MAP_FAILED)
		die("setting up");
	if (!strcmp(argv[2], "completions") && ibv_query_gid(c, 1, 1, &gid))
		die("ibv_query_gid");
	puts("ready");
	fflush(stdout);
	if (getchar() == EOF)
		return 1;
	if (!strcmp(argv[2], "calls"))
		calls(memory);
	else if (!strcmp(argv[2], "completions"))
		completions(memory);
	else
		queues();
	puts("done");
	fflush(stdout);
	getchar();
	return 0;
}
