// The peer of TestEFABenchHits: libfabric's cached fi_mr_reg. It registers COUNT
// pages that follow each other, each by itself, and says "ready". For each line
// that it reads from then on it asks for all of them again in random order, and
// prints nanoseconds a hit (fi_mr_reg and fi_close), the median of blocks of BLOCK;
// the median and the 99th percentile of single ones; and how many did not hit:
// those that came with another key than the first time.
//
// Usage: fi_mr_reg PROVIDER DOMAIN COUNT

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#define PAGE 4096
#define BLOCK 250

static struct fid_domain *domain;
static char *mem;
static uint64_t *keys;
static size_t *order;

static void check(const char *what, int rc)
{
	if (rc == 0)
		return;
	fprintf(stderr, "fi_mr_reg: %s: %s\n", what, fi_strerror(-rc));
	exit(1);
}

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

static struct fid_mr *reg(size_t i)
{
	struct fid_mr *mr;

	check("fi_mr_reg", fi_mr_reg(domain, mem + i * PAGE, PAGE, FI_SEND | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE,
				     0, i + 1, 0, &mr, NULL));
	return mr;
}

static void pass(size_t count)
{
	double *one = malloc(count * sizeof(*one)), clock[1001], start, block;
	size_t i, k, blocks = count / BLOCK, misses = 0;

	for (k = 0; k < blocks; k++) {
		start = now();
		for (i = k * BLOCK; i < (k + 1) * BLOCK; i++) {
			struct fid_mr *mr = reg(order[i]);

			misses += fi_mr_key(mr) != keys[order[i]];
			check("fi_close", fi_close(&mr->fid));
		}
		one[k] = (now() - start) / BLOCK;
	}
	qsort(one, blocks, sizeof(*one), by_value);
	block = one[blocks / 2];
	for (i = 0; i < count; i++) {
		struct fid_mr *mr;

		start = now();
		mr = reg(order[i]);
		check("fi_close", fi_close(&mr->fid));
		one[i] = now() - start;
	}
	for (i = 0; i < 1001; i++) {
		start = now();
		clock[i] = now() - start;
	}
	qsort(one, count, sizeof(*one), by_value);
	qsort(clock, 1001, sizeof(*clock), by_value);
	printf("%f %f %f %zu\n", block, one[count / 2] - clock[500], one[count * 99 / 100] - clock[500], misses);
	fflush(stdout);
	free(one);
}

int main(int argc, char **argv)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fid_fabric *fabric;
	size_t count, i;
	char line[16];

	if (argc != 4 || !(count = strtoul(argv[3], NULL, 10))) {
		fprintf(stderr, "usage: fi_mr_reg PROVIDER DOMAIN COUNT\n");
		return 2;
	}
	hints->fabric_attr->prov_name = strdup(argv[1]);
	hints->caps = FI_MSG | FI_RMA;
	hints->mode = ~0ULL;
	if (strcmp(argv[1], "efa") == 0) {
		// The fabric efa caches, efa-direct does not; and that only without
		// FI_MR_LOCAL.
		hints->fabric_attr->name = strdup("efa");
		hints->ep_attr->type = FI_EP_RDM;
		hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	} else {
		hints->ep_attr->type = FI_EP_MSG;
		hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	}
	check("fi_getinfo", fi_getinfo(FI_VERSION(1, 18), NULL, NULL, 0, hints, &info));
	while (info && strncmp(info->domain_attr->name, argv[2], strlen(argv[2])) != 0)
		info = info->next;
	if (!info) {
		fprintf(stderr, "fi_mr_reg: no domain %s\n", argv[2]);
		return 1;
	}
	check("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
	check("fi_domain", fi_domain(fabric, info, &domain, NULL));
	mem = mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	keys = calloc(count, sizeof(*keys));
	order = calloc(count, sizeof(*order));
	for (i = 0; i < count; i++) {
		struct fid_mr *mr = reg(i);

		keys[i] = fi_mr_key(mr);
		check("fi_close", fi_close(&mr->fid));
		order[i] = i;
	}
	srandom(1);
	for (i = count - 1; i > 0; i--) {
		size_t k = random() % (i + 1), was = order[i];

		order[i] = order[k];
		order[k] = was;
	}
	printf("ready %s %s\n", info->fabric_attr->prov_name, info->domain_attr->name);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		pass(count);
	return 0;
}
