/* Many short processes, each of which fills as many rows of the tracer's tables as it can.
 * Usage: swarm DEVICE PROCESSES errors|connections|completions
 * It prints "ready", goes on when it reads a line, and prints how many calls failed, queue
 * pairs changed or events came in all. It ends when its input does. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned long *total;
static struct ibv_context *context;
static struct ibv_pd *pd;

static void die(const char *what)
{
	fprintf(stderr, "swarm: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (; list && *list; list++)
		if (!strcmp(ibv_get_device_name(*list), name))
			return ibv_open_device(*list);
	return NULL;
}

/* Commands of write() that there are none of. */
static void errors(void)
{
	for (unsigned command = 64; command < 128; command++) {
		struct {
			unsigned command;
			unsigned short in, out;
		} header = { command, 2, 0 };

		if (write(context->cmd_fd, &header, sizeof(header)) >= 0)
			die("a command that is not one was carried out");
		++*total;
	}
}

static struct ibv_qp *make(struct ibv_cq *cq, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = type,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	if (!qp)
		die("ibv_create_qp");
	return qp;
}

static void to(struct ibv_qp *qp, enum ibv_qp_state state, int more, int works)
{
	struct ibv_qp_attr a = { .qp_state = state, .port_num = 1 };

	errno = ibv_modify_qp(qp, &a, IBV_QP_STATE | more);
	if ((errno == 0) != works)
		die("a change of state");
	++*total;
}

/* To where no queue pair goes from where it is, and to the next state. */
static void connections(void)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);

	if (!cq)
		die("ibv_create_cq");
	for (int i = 0; i < 3; i++) {
		struct ibv_qp *qp = make(cq, types[i]);
		int more = IBV_QP_PKEY_INDEX | IBV_QP_PORT | (types[i] == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);

		for (int state = IBV_QPS_INIT; state <= IBV_QPS_ERR; state++)
			to(qp, state, 0, 0);
		to(qp, IBV_QPS_INIT, more, 1);
		for (int state = IBV_QPS_RTS; state < IBV_QPS_ERR; state++)
			to(qp, state, 0, 0);
		to(qp, IBV_QPS_ERR, 0, 1);
		for (int state = IBV_QPS_INIT; state < IBV_QPS_ERR; state++)
			to(qp, state, 0, 0);
		to(qp, IBV_QPS_RESET, 0, 1);
		if (ibv_destroy_qp(qp))
			die("ibv_destroy_qp");
		*total += 2;
	}
}

/* An event of each of many queues: what was posted is flushed. */
static void completions(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);

	if (!channel)
		die("ibv_create_comp_channel");
	for (int i = 0; i < 40; i++) {
		struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, channel, 0), *had;
		void *unused;
		struct ibv_recv_wr wr = { .wr_id = i }, *bad;
		struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

		if (!cq || ibv_req_notify_cq(cq, 0))
			die("ibv_create_cq");
		struct ibv_qp *qp = make(cq, IBV_QPT_UD);
		errno = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
		if (errno || ibv_post_recv(qp, &wr, &bad))
			die("ibv_post_recv");
		a.qp_state = IBV_QPS_ERR;
		errno = ibv_modify_qp(qp, &a, IBV_QP_STATE);
		if (errno || ibv_get_cq_event(channel, &had, &unused))
			die("ibv_get_cq_event");
		ibv_ack_cq_events(had, 1);
		++*total;
		if (ibv_destroy_qp(qp) || ibv_destroy_cq(cq))
			die("ibv_destroy_qp");
	}
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	total = mmap(NULL, sizeof(*total), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	puts("ready");
	fflush(stdout);
	if (total == MAP_FAILED || getchar() == EOF)
		return 1;
	int n = atoi(argv[2]);
	for (int i = 0; i < n; i++) {
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			if (!(context = open_device(argv[1])) || !(pd = ibv_alloc_pd(context)))
				die(argv[1]);
			if (!strcmp(argv[3], "errors"))
				errors();
			else if (!strcmp(argv[3], "connections"))
				connections();
			else
				completions();
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
			fprintf(stderr, "swarm: process %d failed\n", i);
			return 1;
		}
	}
	printf("%lu\n", *total);
	fflush(stdout);
	getchar();
	return 0;
}
