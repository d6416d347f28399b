/* Makes regions and dma-bufs at places that leak and at places that do not: what the
 * tracer has to tell apart.
 * Usage: leaker DEVICE leak|honest|abandon|pass MILLISECONDS
 * It prints "ready", works for as long, prints what is alive by place, and ends when its
 * input does. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/udmabuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PLACE __attribute__((noinline, noclone))
#define LENGTH 8192
#define RING 16

static struct ibv_pd *pd;
static char *memory;
static int leaked, buffers;

static void die(const char *what)
{
	fprintf(stderr, "leaker: %s: %s\n", what, strerror(errno));
	exit(1);
}

static long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

PLACE struct ibv_mr *register_memory(void)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, LENGTH, IBV_ACCESS_LOCAL_WRITE);

	if (!mr)
		die("ibv_reg_mr");
	asm volatile("" ::: "memory"); /* not a tail call */
	return mr;
}

PLACE int make_buffer(void)
{
	int memfd = memfd_create("leaker", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	int control = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);

	if (memfd < 0 || control < 0 || ftruncate(memfd, LENGTH) || fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		die("udmabuf");
	struct udmabuf_create c = { .memfd = memfd, .flags = UDMABUF_FLAGS_CLOEXEC, .size = LENGTH };
	int fd = ioctl(control, UDMABUF_CREATE, &c);
	if (fd < 0)
		die("UDMABUF_CREATE");
	close(memfd);
	close(control);
	return fd;
}

/* The place that leaks: it forgets what it registered. */
PLACE void leak_regions(void)
{
	register_memory();
	leaked++;
}

PLACE void leak_buffers(void)
{
	make_buffer();
	buffers++;
}

/* Registers and deregisters at once. */
PLACE void honest_churn(void)
{
	ibv_dereg_mr(register_memory());
}

/* Keeps the newest few: its regions live long, and end. */
PLACE void honest_ring(void)
{
	static struct ibv_mr *ring[RING];
	static int at;

	if (ring[at])
		ibv_dereg_mr(ring[at]);
	ring[at] = register_memory();
	at = (at + 1) % RING;
}

/* Registers what it needs once. */
PLACE void honest_setup(void)
{
	for (int i = 0; i < 8; i++)
		register_memory();
}

/* A buffer whose maker ends, on its way to another process, which takes it or not. */
static int pass(int take)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair))
		die("socketpair");
	puts("ready");
	fflush(stdout);
	if (fork() == 0) {
		int fd = make_buffer();
		char byte = 0, control[CMSG_SPACE(sizeof(int))] = { 0 };
		struct iovec data = { &byte, 1 };
		struct msghdr m = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);

		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
		if (sendmsg(pair[0], &m, 0) < 0)
			die("sendmsg");
		usleep(300 * 1000);
		_exit(0);
	}
	if (take) {
		char byte, control[CMSG_SPACE(sizeof(int))];
		struct iovec data = { &byte, 1 };
		struct msghdr m = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };

		if (recvmsg(pair[1], &m, 0) != 1)
			die("recvmsg");
	}
	puts("done");
	fflush(stdout);
	getchar();
	return 0;
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

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "usage: leaker DEVICE leak|honest|abandon|pass MILLISECONDS\n");
		return 2;
	}
	if (!strcmp(argv[2], "abandon") || !strcmp(argv[2], "pass"))
		return pass(!strcmp(argv[2], "pass"));
	int leak = !strcmp(argv[2], "leak");
	struct ibv_context *c = open_device(argv[1]);
	if (!c)
		die(argv[1]);
	if (!(pd = ibv_alloc_pd(c)))
		die("ibv_alloc_pd");
	memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		die("mmap");
	int device_buffers = access("/dev/udmabuf", R_OK | W_OK) == 0;
	puts("ready");
	fflush(stdout);
	if (getchar() == EOF)
		return 1;
	honest_setup();
	long end = now() + atol(argv[3]);
	for (int i = 0; now() < end; i++) {
		honest_churn();
		if (i % 2 == 0)
			honest_ring();
		if (leak && i % 4 == 0)
			leak_regions();
		if (leak && device_buffers && i % 8 == 0)
			leak_buffers();
		usleep(50 * 1000);
	}
	printf("leaked %d buffers %d\n", leaked, buffers);
	fflush(stdout);
	getchar();
	return 0;
}
