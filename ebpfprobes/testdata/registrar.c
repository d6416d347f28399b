/* Registers and deregisters memory of one size many times, with its own stopwatch
 * around each call, and prints the medians: what the tracer's figures are held against.
 * Usage: registrar DEVICE host|udmabuf|hole|left LENGTH COUNT [wait [ROUNDS]]
 * A hole is addresses without memory: each registration has to fail. Of left, nothing is
 * deregistered: the kernel does, when the process ends.
 * With wait it prints "ready" and goes on when it reads a line, and once more at its end;
 * so before each of ROUNDS, which all register the same memory.
 * Prints: register COUNT MEDIAN_NS deregister COUNT MEDIAN_NS
 * Exits with 3 if the device or the machine has no dma-bufs. */
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
#include <time.h>
#include <unistd.h>

static void die(const char *what)
{
	fprintf(stderr, "registrar: %s: %s\n", what, strerror(errno));
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

static long median(long *v, long n)
{
	qsort(v, n, sizeof(*v), ascending);
	return v[n / 2];
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

static int make_udmabuf(size_t length)
{
	int memfd = memfd_create("registrar", MFD_ALLOW_SEALING);
	int control = open("/dev/udmabuf", O_RDWR);

	if (control < 0 && errno == ENOENT)
		exit(3);
	if (memfd < 0 || control < 0 || ftruncate(memfd, length) || fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		die("udmabuf");
	struct udmabuf_create c = { .memfd = memfd, .flags = UDMABUF_FLAGS_CLOEXEC, .size = length };
	int fd = ioctl(control, UDMABUF_CREATE, &c);
	if (fd < 0)
		die("UDMABUF_CREATE");
	close(memfd);
	close(control);
	return fd;
}

/* Registers memory, or the dma-buf of fd if there is none, and deregisters it. */
static void cycle(struct ibv_pd *pd, char *memory, int fd, size_t length, int hole, int left,
		  long *registering, long *ending)
{
	long t0 = now();
	struct ibv_mr *mr = memory ? ibv_reg_mr(pd, memory, length, IBV_ACCESS_LOCAL_WRITE) :
				     ibv_reg_dmabuf_mr(pd, 0, length, 0, fd, IBV_ACCESS_LOCAL_WRITE);
	long t1 = now();
	if (hole && !mr)
		return;
	if (!mr && !memory && errno == EOPNOTSUPP)
		exit(3);
	if (!mr || hole)
		die("register");
	*registering = t1 - t0;
	if (left)
		return;
	if (ibv_dereg_mr(mr))
		die("deregister");
	*ending = now() - t1;
}

int main(int argc, char **argv)
{
	if (argc < 5) {
		fprintf(stderr, "usage: registrar DEVICE host|udmabuf|hole|left LENGTH COUNT [wait [ROUNDS]]\n");
		return 2;
	}
	int hole = !strcmp(argv[2], "hole"), wait = argc > 5;
	int left = !strcmp(argv[2], "left"), host = hole || left || !strcmp(argv[2], "host");
	size_t length = strtoul(argv[3], NULL, 0);
	long count = strtol(argv[4], NULL, 0);
	struct ibv_context *c = open_device(argv[1]);
	if (!c)
		die(argv[1]);
	struct ibv_pd *pd = ibv_alloc_pd(c);
	if (!pd)
		die("ibv_alloc_pd");
	char *memory = NULL;
	int fd = -1;
	if (host) {
		memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (memory == MAP_FAILED)
			die("mmap");
		if (hole && munmap(memory, length))
			die("munmap");
	} else {
		fd = make_udmabuf(length);
	}
	long *registering = malloc(count * sizeof(long)), *ending = malloc(count * sizeof(long));
	if (!registering || !ending)
		die("malloc");
	memset(registering, 0, count * sizeof(long)); /* no page faults beside the stopwatch */
	memset(ending, 0, count * sizeof(long));
	if (wait) {
		puts("ready");
		fflush(stdout);
	}
	for (long rounds = argc > 6 ? strtol(argv[6], NULL, 0) : 1; rounds > 0; rounds--) {
		if (wait && getchar() == EOF)
			return 1;
		for (long i = 0; i < count; i++)
			cycle(pd, memory, fd, length, hole, left, &registering[i], &ending[i]);
		printf("register %ld %ld deregister %ld %ld\n", count, median(registering, count),
		       count, median(ending, count));
		fflush(stdout);
	}
	if (wait)
		getchar();
	return 0;
}
