/* The requests of a queue, made before the clock runs. */
#ifndef PEERDIRECT_PERF_RINGS_H
#define PEERDIRECT_PERF_RINGS_H

#include "loop.h"

/* What the requests of one queue have in common. Request i uses slot i mod
 * slots on both sides. */
struct pf_shape {
	uint32_t opcode;            /* enum ibv_wr_opcode */
	uint32_t list;              /* requests chained to one posting */
	uint32_t slots;
	uint64_t stride;            /* bytes between slots */
	uint32_t size;              /* bytes of a message */
	uint32_t index;             /* of the queue, the receives' id */
	uint64_t local, remote;     /* the first slot */
	uint32_t lkey, rkey;
	uint64_t remote_stride;     /* 0: all requests go to one place */
};

/* 0 or ENOMEM. The ring has a multiple of both list and slots requests. */
int pf_make_sends(struct pf_queue *q, const struct pf_shape *s);

/* 0 or ENOMEM. rring is depth rounded down to a multiple of slots. */
int pf_make_receives(struct pf_queue *q, const struct pf_shape *s, uint32_t depth);

/* The queue's credits: cells of memory here, and the peer's cell that ours goes
 * to. 0 or ENOMEM. Comes after pf_make_receives. */
int pf_make_credit(struct pf_queue *q, uint64_t *in, uint64_t *out, uint32_t lkey, uint64_t remote, uint32_t rkey);

void pf_free_rings(struct pf_queue *q);

#endif
