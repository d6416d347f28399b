/* Holds what a program with an RDMA device open has in its memory: a context, an extended
 * completion queue and an extended queue pair, with pointers into a provider's library.
 * Usage: holder LIBRARY POLL_CQ POST_SEND POST_RECV END_POLL WR_COMPLETE
 * (addresses in the library). It prints the context's address and waits. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc != 7)
		return 2;
	struct link_map *map = dlopen(argv[1], RTLD_NOW);
	if (!map) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	void *function[7];
	for (int i = 2; i < 7; i++)
		function[i] = (void *)(map->l_addr + strtoul(argv[i], NULL, 0));
	struct ibv_device *d = calloc(1, sizeof(*d));
	struct ibv_context *c = calloc(1, sizeof(*c));
	struct ibv_cq_ex *cq = calloc(1, sizeof(*cq));
	struct ibv_qp_ex *qp = calloc(1, sizeof(*qp));
	strcpy(d->name, "held_0");
	c->device = d;
	c->ops.poll_cq = function[2];
	c->ops.post_send = function[3];
	c->ops.post_recv = function[4];
	cq->context = c;
	cq->start_poll = function[5];
	cq->next_poll = function[5];
	cq->end_poll = function[5];
	qp->qp_base.context = c;
	qp->wr_complete = function[6];
	qp->wr_send = function[6];
	printf("%p\n", (void *)c);
	fflush(stdout);
	pause();
	return 0;
}
