/*
 * srd drives a scalable reliable datagram (SRD) queue pair between two machines
 * through libibverbs' ibv_wr_* calls and efadv, and checks every byte:
 *
 *     srd [-d DEVICE] [-b host|udmabuf|heap]            on one machine, and
 *     srd [-d DEVICE] [-b host|udmabuf|heap] ADDRESS    on the other
 *
 * The first serves, the second runs the cases and prints them as TAP. Both
 * register one region of REGION bytes: ordinary memory, or a dma-buf of
 * /dev/udmabuf or /dev/dma_heap/system. A TCP connection carries addresses and
 * what the server is to fill, post, await and check.
 *
 *     gcc -O2 -Wall -Werror -o srd srd.c -libverbs -lefa
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/efadv.h>
#include <infiniband/verbs.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	PORT = 18600,
	QKEY = 0x11111111,
	REGION = 4 << 20,
	HALF = REGION / 2, /* the client's source, and beyond it what it reads into */
	DEPTH = 64,
	DEADLINE = 30, /* seconds for one completion, under emulation */
};

struct peer {
	union ibv_gid gid;
	uint32_t qpn, rkey;
	uint64_t addr;
};

/* What the client asks of the server. */
enum verb { FILL, CHECK, POST, AWAIT, QUIT };
struct request {
	enum verb verb;
	uint32_t offset, length, seed, imm;
	int has_imm;
};
struct reply {
	int ok;
	char why[120];
};

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq_ex *cq;
static struct ibv_qp *qp;
static struct ibv_qp_ex *qpx;
static struct ibv_mr *mr;
static struct ibv_ah *ah;
static struct efadv_device_attr caps;
static struct ibv_port_attr port;
static const char *memory = "host"; /* kind of the region's */
static uint8_t *region;
static struct peer mine, theirs;
static int sock;
static int cases, failed;

static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "srd: ");
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	exit(2); /* 1: a case failed */
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* A pattern that differs from its neighbours, from other seeds and from zero. */
static uint8_t pattern(uint32_t seed, uint32_t i)
{
	return (seed * 151 + i * 7 + (i >> 8) * 31) % 255 + 1;
}

static void fill(uint32_t offset, uint32_t length, uint32_t seed)
{
	for (uint32_t i = 0; i < length; i++)
		region[offset + i] = pattern(seed, i);
}

static int check(uint32_t offset, uint32_t length, uint32_t seed, char *why, size_t size)
{
	for (uint32_t i = 0; i < length; i++) {
		uint8_t want = pattern(seed, i), got = region[offset + i];

		if (got != want) {
			snprintf(why, size, "byte %u of %u is %02x, not %02x", i, length, got, want);
			return 0;
		}
	}
	return 1;
}

/* Gives a dma-buf of REGION bytes and where the processor sees it. */
static int allocate(void)
{
	int fd;

	if (!strcmp(memory, "udmabuf")) {
		struct udmabuf_create create = { .size = REGION };
		int dev = open("/dev/udmabuf", O_RDWR);

		create.memfd = memfd_create("srd", MFD_ALLOW_SEALING);
		if (dev < 0 || ftruncate(create.memfd, REGION) || fcntl(create.memfd, F_ADD_SEALS, F_SEAL_SHRINK))
			die("/dev/udmabuf: %m");
		fd = ioctl(dev, UDMABUF_CREATE, &create);
		region = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_SHARED, create.memfd, 0);
	} else {
		struct dma_heap_allocation_data data = { .len = REGION, .fd_flags = O_RDWR | O_CLOEXEC };
		int dev = open("/dev/dma_heap/system", O_RDWR);

		if (dev < 0 || ioctl(dev, DMA_HEAP_IOCTL_ALLOC, &data))
			die("/dev/dma_heap/system: %m");
		fd = data.fd;
		region = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	}
	if (fd < 0 || region == MAP_FAILED)
		die("a dma-buf of %s: %m", memory);
	return fd;
}

static void open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	if (!ctx)
		die("no device %s", name);
	ibv_free_device_list(list);
	if (efadv_query_device(ctx, &caps, sizeof(caps)))
		die("%s is no EFA device: %m", name);
	if (ibv_query_port(ctx, 1, &port) || ibv_query_gid(ctx, 1, 0, &mine.gid))
		die("port 1 of %s: %m", name);
}

static void create(void)
{
	int access = IBV_ACCESS_LOCAL_WRITE;
	struct ibv_cq_init_attr_ex cq_attr = {
		.cqe = 2 * DEPTH,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM,
	};
	struct ibv_qp_init_attr_ex attr = {
		.cap = { DEPTH, DEPTH, 1, 1, caps.inline_buf_size },
		.qp_type = IBV_QPT_DRIVER,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
	};
	struct efadv_qp_init_attr efa = { .driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD };
	struct ibv_qp_attr state = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	if (caps.device_caps & EFADV_DEVICE_ATTR_CAPS_RDMA_READ) {
		access |= IBV_ACCESS_REMOTE_READ;
		attr.send_ops_flags |= IBV_QP_EX_WITH_RDMA_READ;
	}
	if (caps.device_caps & EFADV_DEVICE_ATTR_CAPS_RDMA_WRITE) {
		access |= IBV_ACCESS_REMOTE_WRITE;
		attr.send_ops_flags |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	}
	pd = ibv_alloc_pd(ctx);
	if (!pd)
		die("protection domain: %m");
	if (!strcmp(memory, "host")) {
		region = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		mr = ibv_reg_mr(pd, region, REGION, access);
	} else {
		int fd = allocate();

		mr = ibv_reg_dmabuf_mr(pd, 0, REGION, (uintptr_t)region, fd, access);
	}
	if (!mr)
		die("registering %d bytes of %s: %m", REGION, memory);
	cq = ibv_create_cq_ex(ctx, &cq_attr);
	if (!cq)
		die("completion queue: %m");
	attr.pd = pd;
	attr.send_cq = attr.recv_cq = ibv_cq_ex_to_cq(cq);
	qp = efadv_create_qp_ex(ctx, &attr, &efa, sizeof(efa));
	if (!qp)
		die("SRD queue pair: %m");
	qpx = ibv_qp_to_qp_ex(qp);
	if (ibv_modify_qp(qp, &state, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
		die("queue pair to INIT: %m");
	state.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, &state, IBV_QP_STATE))
		die("queue pair to RTR: %m");
	state.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(qp, &state, IBV_QP_STATE | IBV_QP_SQ_PSN))
		die("queue pair to RTS: %m");
	mine.qpn = qp->qp_num;
	mine.rkey = mr->rkey;
	mine.addr = (uintptr_t)region;
}

static void put(const void *p, size_t n)
{
	if (send(sock, p, n, MSG_NOSIGNAL) != (ssize_t)n)
		die("the other side is gone: %m");
}

static void get(void *p, size_t n)
{
	if (recv(sock, p, n, MSG_WAITALL) != (ssize_t)n)
		die("the other side is gone or silent: %m");
}

static void exchange(void)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };
	char ready = 1;

	put(&mine, sizeof(mine));
	get(&theirs, sizeof(theirs));
	attr.grh.dgid = theirs.gid;
	ah = ibv_create_ah(pd, &attr);
	if (!ah)
		die("address handle: %m");
	/* Remote access reaches only who holds a handle of the initiator. */
	put(&ready, 1);
	get(&ready, 1);
}

/*
 * Waits for the next completion and gives its status, or -1 after DEADLINE; the
 * fields that follow are those of the completion.
 */
static int await(uint64_t *id, enum ibv_wc_opcode *op, uint32_t *length, uint32_t *imm)
{
	struct ibv_poll_cq_attr none = {};
	double limit = now() + DEADLINE;
	int err, status;

	while ((err = ibv_start_poll(cq, &none)) == ENOENT)
		if (now() > limit)
			return -1;
	if (err)
		die("polling: %s", strerror(err));
	status = cq->status;
	*id = cq->wr_id;
	*op = ibv_wc_read_opcode(cq);
	*length = ibv_wc_read_byte_len(cq);
	*imm = ntohl(ibv_wc_read_imm_data(cq));
	ibv_end_poll(cq);
	return status;
}

static int post_recv(uint32_t offset, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)region + offset, length, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = offset, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(qp, &wr, &bad);
}

static void serve(void)
{
	struct request r;
	struct reply reply;
	uint64_t id;
	uint32_t length, imm;
	enum ibv_wc_opcode op;
	int status;

	for (;;) {
		get(&r, sizeof(r));
		reply = (struct reply){ .ok = 1 };
		switch (r.verb) {
		case FILL:
			fill(r.offset, r.length, r.seed);
			break;
		case CHECK:
			reply.ok = check(r.offset, r.length, r.seed, reply.why, sizeof(reply.why));
			break;
		case POST:
			status = post_recv(r.offset, r.length);
			if (status) {
				reply.ok = 0;
				snprintf(reply.why, sizeof(reply.why), "ibv_post_recv: %s", strerror(status));
			}
			break;
		case AWAIT:
			status = await(&id, &op, &length, &imm);
			if (status || length != r.length || (r.has_imm && imm != r.imm)) {
				reply.ok = 0;
				snprintf(reply.why, sizeof(reply.why),
					 "receive completion: status %d, %u bytes, immediate %x", status, length, imm);
			}
			break;
		case QUIT:
			return;
		}
		put(&reply, sizeof(reply));
	}
}

/* Asks the server and keeps its complaint in why. */
static int ask(struct request r, char *why, size_t size)
{
	struct reply reply;

	put(&r, sizeof(r));
	get(&reply, sizeof(reply));
	if (!reply.ok)
		snprintf(why, size, "the server: %s", reply.why);
	return reply.ok;
}

#include "srd_cases.h"

static void join(const char *server)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	struct timeval limit = { .tv_sec = 4 * DEADLINE };
	double deadline = now() + DEADLINE;

	if (server) {
		inet_pton(AF_INET, server, &addr.sin_addr);
		for (;;) {
			sock = socket(AF_INET, SOCK_STREAM, 0);
			if (!connect(sock, (void *)&addr, sizeof(addr)))
				break;
			if (now() > deadline)
				die("%s does not answer: %m", server);
			close(sock);
			usleep(100000);
		}
	} else {
		int l = socket(AF_INET, SOCK_STREAM, 0), on = 1;

		setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		setsockopt(l, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		if (bind(l, (void *)&addr, sizeof(addr)) || listen(l, 1))
			die("listening: %m");
		sock = accept(l, NULL, NULL);
		if (sock < 0)
			die("nobody came: %m");
		close(l);
	}
	setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

int main(int argc, char **argv)
{
	const char *device = "efa_0";
	int c;

	while ((c = getopt(argc, argv, "d:b:")) != -1)
		switch (c) {
		case 'd':
			device = optarg;
			break;
		case 'b':
			memory = optarg;
			break;
		default:
			return 2;
		}
	open_device(device);
	create();
	join(argv[optind]);
	exchange();
	if (!argv[optind]) {
		serve();
		return 0;
	}
	run();
	return failed != 0;
}
