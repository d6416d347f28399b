/* The baselines that RDMA is compared with: a TCP socket, and a copy through
 * memory that two threads share. The rules are loop.h's: one call for the whole
 * run, ended early through pf_control. */
#ifndef PEERDIRECT_PERF_BASELINE_H
#define PEERDIRECT_PERF_BASELINE_H

#include "loop.h"

/* One connection. Messages have no frame: both sides know the size. */
struct pf_tcp {
	struct pf_control *control;
	int fd;    /* non-blocking */
	int spin;  /* poll the socket instead of sleeping on it */
	uint32_t first;
	uint8_t *out, *in; /* slots of stride bytes; message i uses slot i mod slots */
	uint64_t out_size, in_size; /* bytes of a message */
	uint64_t stride, slots;
	uint64_t iters; /* messages to send, or PF_UNKNOWN until closing */
	uint64_t timeout_ns;

	uint64_t *posted_at;
	uint64_t samples, sampled;

	uint64_t start, end;
	uint64_t sent, received; /* messages */
	int err;
};

int pf_tcp_send(struct pf_tcp *t);
int pf_tcp_receive(struct pf_tcp *t); /* until control's target */
int pf_tcp_lat(struct pf_tcp *t);

/* Shared memory. head and tail are lines of their own: each is written by one
 * side only. */
struct pf_shm {
	struct pf_control *control;
	uint8_t *src, *shared, *dst; /* slots of stride bytes */
	uint64_t size, stride, slots;
	uint64_t iters;
	uint64_t timeout_ns;
	uint32_t copy_out; /* the receiver takes the message to memory of its own */

	uint64_t *posted_at;
	uint64_t samples, sampled;

	uint64_t start, end, sent;
	uint64_t head __attribute__((aligned(128)));
	uint64_t tail __attribute__((aligned(128)));
	uint64_t counter __attribute__((aligned(128)));
};

int pf_shm_write(struct pf_shm *s);  /* bandwidth, the writing side */
int pf_shm_take(struct pf_shm *s);   /* and the side that takes */
int pf_shm_ping(struct pf_shm *s);   /* latency, the side that begins */
int pf_shm_pong(struct pf_shm *s);   /* and the one that answers */
int pf_shm_read(struct pf_shm *s);   /* one side alone */
int pf_shm_atomic(struct pf_shm *s); /* one side alone */

#endif
