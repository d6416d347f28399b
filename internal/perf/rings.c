#include "rings.h"

#include <errno.h>
#include <stdlib.h>

static uint32_t common_multiple(uint32_t a, uint32_t b)
{
	uint32_t x = a, y = b;

	while (y) {
		uint32_t t = x % y;

		x = y;
		y = t;
	}
	return a / x * b;
}

int pf_make_sends(struct pf_queue *q, const struct pf_shape *s)
{
	uint32_t n = common_multiple(s->list, s->slots), i;
	/* The scatter entries lie behind the requests, in the same piece. */
	struct ibv_send_wr *wr = calloc(n, sizeof(*wr) + sizeof(struct ibv_sge));
	struct ibv_sge *sge;

	if (!wr)
		return ENOMEM;
	sge = (struct ibv_sge *)(wr + n);
	for (i = 0; i < n; i++) {
		uint64_t slot = i % s->slots;
		uint64_t remote = s->remote + slot * s->remote_stride;

		sge[i].addr = s->local + slot * s->stride;
		sge[i].length = s->size;
		sge[i].lkey = s->lkey;
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = 1;
		wr[i].opcode = s->opcode;
		if ((i + 1) % s->list)
			wr[i].next = &wr[i + 1];
		if (s->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			wr[i].wr.atomic.remote_addr = remote;
			wr[i].wr.atomic.rkey = s->rkey;
			wr[i].wr.atomic.compare_add = 1;
		} else {
			wr[i].wr.rdma.remote_addr = remote;
			wr[i].wr.rdma.rkey = s->rkey;
		}
	}
	free(q->wr);
	q->wr = wr;
	q->ring = n;
	q->next = 0;
	return 0;
}

int pf_make_receives(struct pf_queue *q, const struct pf_shape *s, uint32_t depth)
{
	uint32_t n = depth / s->slots * s->slots, i;
	struct ibv_recv_wr *wr = calloc(n, sizeof(*wr) + sizeof(struct ibv_sge));
	struct ibv_sge *sge;

	if (!wr)
		return ENOMEM;
	sge = (struct ibv_sge *)(wr + n);
	for (i = 0; i < n; i++) {
		sge[i].addr = s->local + i % s->slots * s->stride;
		sge[i].length = s->size;
		sge[i].lkey = s->lkey;
		wr[i].wr_id = s->index;
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = 1;
	}
	free(q->rwr);
	q->rwr = wr;
	q->rring = n;
	q->rnext = 0;
	return 0;
}

int pf_make_credit(struct pf_queue *q, uint64_t *in, uint64_t *out, uint32_t lkey, uint64_t remote, uint32_t rkey)
{
	struct ibv_send_wr *wr = calloc(1, sizeof(*wr) + sizeof(struct ibv_sge));

	if (!wr)
		return ENOMEM;
	wr->sg_list = (struct ibv_sge *)(wr + 1);
	wr->sg_list->addr = (uintptr_t)out;
	wr->sg_list->length = sizeof(*out);
	wr->sg_list->lkey = lkey;
	wr->num_sge = 1;
	wr->opcode = IBV_WR_RDMA_WRITE;
	wr->send_flags = IBV_SEND_SIGNALED;
	wr->wr.rdma.remote_addr = remote;
	wr->wr.rdma.rkey = rkey;
	q->credit_wr = wr;
	q->credit = in;
	q->offer = out;
	/* Both sides have as many receives posted from the start. */
	q->offered = q->rring;
	*in = q->rring;
	return 0;
}

void pf_free_rings(struct pf_queue *q)
{
	free(q->credit_wr);
	q->credit_wr = NULL;
	free(q->wr);
	free(q->rwr);
	q->wr = NULL;
	q->rwr = NULL;
}
