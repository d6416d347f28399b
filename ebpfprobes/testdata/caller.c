/* Registers and deregisters memory by system calls that it makes itself, in each way that
 * the kernel offers, with its own stopwatch around each call.
 * Usage: caller DEVICE WAY LENGTH COUNT
 *   write    commands by write(), on a context that was opened so too (rxe)
 *   mixed    commands by write(), on a context of libibverbs
 *   command  commands by ioctl(); ended by the method of the region
 *   region   the region's own method by ioctl() (7.x)
 *   demand   write() with on-demand paging
 *   again    write(); registered again in the same memory in between
 *   devx     mlx5's umem by ioctl(), which other devices refuse
 *   orphan   write(), and nothing is deregistered
 *   foreign  what looks like a registration, written to a file
 * Prints "ready" and goes on when it reads a line; then
 *   register COUNT MEDIAN_NS ERRNO again COUNT MEDIAN_NS ERRNO deregister COUNT MEDIAN_NS ERRNO
 * with the errno of the last that failed, and ends when it reads another line. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int fd;
static __u32 pd;
static char *memory;
static size_t length;
static __u32 driver; /* the kernel refuses another's calls */
static __u32 access_flags = IBV_ACCESS_LOCAL_WRITE;

static void die(const char *what)
{
	fprintf(stderr, "caller: %s: %s\n", what, strerror(errno));
	exit(1);
}

static long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

/* A command by write(): 0, or an errno. */
static int put(__u32 number, void *core, int size, int answer)
{
	struct {
		struct ib_uverbs_cmd_hdr header;
		char core[64];
	} c = { .header = { number, (8 + size) / 4, answer / 4 } };

	memcpy(c.core, core, size);
	return write(fd, &c, 8 + size) == 8 + size ? 0 : errno;
}

static int by_write(__u32 *handle)
{
	struct ib_uverbs_reg_mr_resp answer = {};
	struct ib_uverbs_reg_mr c = { .response = (__u64)&answer, .start = (__u64)memory, .length = length,
				      .hca_va = (__u64)memory, .pd_handle = pd, .access_flags = access_flags };
	int error = put(IB_USER_VERBS_CMD_REG_MR, &c, sizeof(c), 12);

	*handle = answer.mr_handle;
	return error;
}

static int again_by_write(__u32 handle)
{
	struct ib_uverbs_rereg_mr_resp answer = {};
	struct ib_uverbs_rereg_mr c = { .response = (__u64)&answer, .mr_handle = handle, .flags = 4 /* access */,
					.pd_handle = pd, .access_flags = access_flags };

	return put(IB_USER_VERBS_CMD_REREG_MR, &c, sizeof(c), 8);
}

static int end_by_write(__u32 handle)
{
	struct ib_uverbs_dereg_mr c = { handle };

	return put(IB_USER_VERBS_CMD_DEREG_MR, &c, sizeof(c), 0);
}

struct call {
	struct ib_uverbs_ioctl_hdr header;
	struct ib_uverbs_attr attributes[12];
};

static void attribute(struct call *c, int id, int size, __u64 data)
{
	struct ib_uverbs_attr *a = &c->attributes[c->header.num_attrs++];

	a->attr_id = id;
	a->len = size;
	a->flags = UVERBS_ATTR_F_MANDATORY;
	a->data = data;
	c->header.length = sizeof(c->header) + c->header.num_attrs * sizeof(*a);
}

static int call(struct call *c)
{
	return ioctl(fd, RDMA_VERBS_IOCTL, c) ? errno : 0;
}

static int by_command(__u32 *handle)
{
	struct ib_uverbs_reg_mr_resp answer = {};
	struct ib_uverbs_reg_mr core = { .start = (__u64)memory, .length = length, .hca_va = (__u64)memory,
					 .pd_handle = pd, .access_flags = access_flags };
	struct call c = { .header = { .object_id = UVERBS_OBJECT_DEVICE, .method_id = UVERBS_METHOD_INVOKE_WRITE, .driver_id = driver } };

	attribute(&c, UVERBS_ATTR_WRITE_CMD, 8, IB_USER_VERBS_CMD_REG_MR);
	attribute(&c, UVERBS_ATTR_CORE_IN, sizeof(core), (__u64)&core);
	attribute(&c, UVERBS_ATTR_CORE_OUT, 12, (__u64)&answer);
	int error = call(&c);
	*handle = answer.mr_handle;
	return error;
}

static int by_region(__u32 *handle)
{
	__u32 lkey = 0, rkey = 0;
	struct call c = { .header = { .object_id = UVERBS_OBJECT_MR, .method_id = 5, .driver_id = driver } };

	attribute(&c, 0, 0, 0);
	attribute(&c, 1, 0, pd);
	attribute(&c, 3, 8, (__u64)memory); /* iova */
	attribute(&c, 4, 8, (__u64)memory);
	attribute(&c, 5, 8, length);
	attribute(&c, 6, 4, access_flags);
	attribute(&c, 9, 4, (__u64)&lkey);
	attribute(&c, 10, 4, (__u64)&rkey);
	int error = call(&c);
	*handle = c.attributes[0].data;
	return error;
}

static int by_devx(__u32 *handle)
{
	__u32 id = 0;
	struct call c = { .header = { .object_id = 0x1002, .method_id = 0x1000, .driver_id = RDMA_DRIVER_MLX5 } };

	attribute(&c, 0x1000, 0, 0);
	attribute(&c, 0x1001, 8, (__u64)memory);
	attribute(&c, 0x1002, 8, length);
	attribute(&c, 0x1003, 4, access_flags);
	attribute(&c, 0x1004, 4, (__u64)&id);
	return call(&c);
}

static int end_by_method(__u32 handle)
{
	struct call c = { .header = { .object_id = UVERBS_OBJECT_MR, .method_id = UVERBS_METHOD_MR_DESTROY, .driver_id = driver } };

	attribute(&c, UVERBS_ATTR_DESTROY_MR_HANDLE, 0, handle);
	return call(&c);
}

static void open_by_write(const char *device)
{
	char path[96];
	struct ib_uverbs_get_context_resp answer;
	struct ib_uverbs_alloc_pd_resp domain;
	struct ib_uverbs_get_context c = { .response = (__u64)&answer };
	struct ib_uverbs_alloc_pd p = { .response = (__u64)&domain };

	snprintf(path, sizeof(path), "/dev/infiniband/%s", device);
	fd = open(path, O_RDWR);
	if (fd < 0)
		die(path);
	if ((errno = put(IB_USER_VERBS_CMD_GET_CONTEXT, &c, sizeof(c), sizeof(answer))))
		die("GET_CONTEXT");
	if ((errno = put(IB_USER_VERBS_CMD_ALLOC_PD, &p, sizeof(p), sizeof(domain))))
		die("ALLOC_PD");
	pd = domain.pd_handle;
}

static void open_by_library(const char *device, char **node)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (; list && *list; list++)
		if (!strcmp(ibv_get_device_name(*list), device)) {
			*node = (*list)->dev_name;
			struct ibv_context *c = ibv_open_device(*list);
			struct ibv_pd *domain = c ? ibv_alloc_pd(c) : NULL;
			if (!domain)
				die(device);
			fd = c->cmd_fd;
			pd = domain->handle;
			return;
		}
	die(device);
}

static int ascending(const void *a, const void *b)
{
	long x = *(const long *)a, y = *(const long *)b;

	return x < y ? -1 : x > y;
}

struct stopwatch {
	long *times, count, error, began;
};

static void stop(struct stopwatch *s, int error)
{
	s->times[s->count++] = now() - s->began;
	if (error)
		s->error = error;
}

static void say(const char *what, struct stopwatch *s)
{
	qsort(s->times, s->count, sizeof(long), ascending);
	printf("%s %ld %ld %ld ", what, s->count, s->count ? s->times[s->count / 2] : 0, s->error);
}

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	const char *way = argv[2];
	long count = strtol(argv[4], NULL, 0);
	int devx = !strcmp(way, "devx"), orphan = !strcmp(way, "orphan"), again = !strcmp(way, "again");
	int by_ioctl = !strcmp(way, "command") || !strcmp(way, "region");
	int (*reg)(__u32 *) = !strcmp(way, "command") ? by_command : !strcmp(way, "region") ? by_region : devx ? by_devx : by_write;
	struct stopwatch watches[3];
	char *node;

	driver = strncmp(argv[1], "efa", 3) ? RDMA_DRIVER_RXE : RDMA_DRIVER_EFA;
	length = strtoul(argv[3], NULL, 0);
	memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		die("mmap");
	for (int i = 0; i < 3; i++)
		watches[i] = (struct stopwatch){ .times = calloc(count, sizeof(long)) };
	if (!strcmp(way, "demand"))
		access_flags |= IBV_ACCESS_ON_DEMAND;
	if (!strcmp(way, "foreign")) {
		fd = memfd_create("foreign", 0);
	} else {
		open_by_library(argv[1], &node);
		if (!strcmp(way, "write"))
			open_by_write(node);
	}
	puts("ready");
	fflush(stdout);
	if (getchar() == EOF)
		return 1;
	for (long i = 0; i < count; i++) {
		__u32 handle = 0;
		int error;

		watches[0].began = now();
		stop(&watches[0], error = reg(&handle));
		if (error || orphan)
			continue;
		if (again) {
			watches[1].began = now();
			stop(&watches[1], again_by_write(handle));
		}
		watches[2].began = now();
		stop(&watches[2], by_ioctl ? end_by_method(handle) : end_by_write(handle));
	}
	say("register", &watches[0]);
	say("again", &watches[1]);
	say("deregister", &watches[2]);
	puts("");
	fflush(stdout);
	getchar();
	return 0;
}
