/* Makes two calls of the uverbs interface that fail. The first does not return until it is
 * told to: the argument is in a page that is not there yet.
 * Usage: blocked DEVICE
 * It prints "ready", makes the call when it reads a line, prints "blocked" when the kernel
 * waits for the page, gives the page when it reads another, prints both errors, and ends
 * when its input does. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct ibv_context *context;
static void *page;

static void die(const char *what)
{
	fprintf(stderr, "blocked: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int errors[2];

static void *call(void *unused)
{
	for (int i = 0; i < 2; i++)
		errors[i] = ioctl(context->cmd_fd, 0xC0181B01, page) ? errno : 0; /* RDMA_VERBS_IOCTL */
	return NULL;
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct uffdio_api api = { .api = UFFD_API };
	long size = sysconf(_SC_PAGESIZE);
	int faults = syscall(SYS_userfaultfd, O_CLOEXEC);
	pthread_t thread;
	struct uffd_msg m;

	for (; argc > 1 && list && *list && !context; list++)
		if (!strcmp(ibv_get_device_name(*list), argv[1]))
			context = ibv_open_device(*list);
	page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register r = { .range = { (unsigned long)page, size }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_zeropage zero = { .range = r.range };
	if (!context || faults < 0 || page == MAP_FAILED || ioctl(faults, UFFDIO_API, &api) || ioctl(faults, UFFDIO_REGISTER, &r))
		die("setting up");
	puts("ready");
	fflush(stdout);
	if (getchar() == EOF)
		return 1;
	if (pthread_create(&thread, NULL, call, NULL) || read(faults, &m, sizeof(m)) != sizeof(m) || m.event != UFFD_EVENT_PAGEFAULT)
		die("the call");
	puts("blocked");
	fflush(stdout);
	if (getchar() == EOF)
		return 1;
	if (ioctl(faults, UFFDIO_ZEROPAGE, &zero) || pthread_join(thread, NULL))
		die("the page");
	printf("errors %d %d\n", errors[0], errors[1]);
	fflush(stdout);
	getchar();
	return 0;
}
