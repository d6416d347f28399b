/* The timed loops of package perf.
 *
 * A loop runs in one C call from its first request to its last completion: the
 * Go scheduler's preemption signals would double the cost of every poll, and a
 * crossing a message would show in the rates. What may end a loop early (the
 * user, the peer, a duration that is over) is told to it through pf_control,
 * which Go writes from other threads while the loop runs.
 *
 * libibverbs is not linked: posting and polling are inline functions of its
 * header, and the two functions for events are handed in.
 */
#ifndef PEERDIRECT_PERF_LOOP_H
#define PEERDIRECT_PERF_LOOP_H

#include <stdint.h>
#include <stddef.h>
#include <infiniband/verbs.h>

#include "marks.h"

/* Completions taken at once. */
#define PF_BATCH 16

/* Rounds of a bandwidth loop that find nothing, after which the processor is
 * offered to others, and rounds of looking at memory; powers of 2. Both are some
 * tens of microseconds on hardware, which answers sooner. */
#define PF_PATIENCE 1024
#define PF_LOOKS 256

/* No number of messages is known yet. */
#define PF_UNKNOWN UINT64_MAX

enum pf_status {
	PF_DONE = 0,
	PF_MORE,     /* something to do for the caller, who then calls again */
	PF_STOPPED,  /* pf_stop was called */
	PF_TIMEOUT,  /* nothing moved for timeout_ns */
	PF_POST,     /* posting failed with err */
	PF_POLL,     /* polling failed with err */
	PF_WC,       /* a request completed with wc_status */
	PF_EVENT,    /* waiting for an event failed with err */
	PF_IO,       /* a socket failed with err */
	PF_CLOSED,   /* the socket's peer closed it */
};

/* Written by Go while a loop runs, by the functions below only. */
struct pf_control {
	int stop;        /* give up now */
	int closing;     /* post no more, finish what is posted: pf_time_is_over */
	uint64_t target; /* messages that the peer will have sent, or PF_UNKNOWN */
	int wake_fd;     /* eventfd that ends a sleep; -1 without */
};

/* One queue pair with its requests, which are made once. */
struct pf_queue {
	struct ibv_qp *qp;
	struct ibv_send_wr *wr;  /* ring of sends, chained in groups of list */
	struct ibv_recv_wr *rwr; /* ring of receives */
	uint32_t ring, rring;    /* their entries; ring is a multiple of list */
	uint32_t next, rnext;
	uint64_t posted, completed; /* in this run */
	uint32_t since;             /* sends since the last that asked for a completion */

	/* On iWARP a message that meets no receive ends the connection, and the
	 * completion of a send does not tell that it was received. There the
	 * receiver writes into the sender's memory how many messages it has had
	 * room for since the connection was made. NULL elsewhere. */
	volatile uint64_t *credit;     /* what the peer has shown */
	uint64_t *offer;               /* what this side shows */
	struct ibv_send_wr *credit_wr; /* writes it to the peer */
	uint64_t sent_ever, received_ever, offered;
	uint32_t offers;               /* in flight */
};

/* Offers in flight on a queue, for which its send queue has room on top. */
#define PF_OFFERS 4

struct pf_run {
	struct pf_control *control;
	struct pf_queue *q;
	uint32_t queues;
	struct ibv_cq *scq, *rcq;               /* rcq is NULL where nothing is received */
	struct ibv_comp_channel *sch, *rch;     /* sleep on these, or poll if NULL */
	int (*get_event)(struct ibv_comp_channel *, struct ibv_cq **, void **);
	void (*ack_events)(struct ibv_cq *, unsigned int);
	uint64_t timeout_ns;

	uint64_t iters;  /* sends a queue; 0 none, PF_UNKNOWN until closing */
	uint32_t depth, list, cq_mod;
	uint32_t flags;  /* of every send: IBV_SEND_INLINE or 0 */
	uint32_t first;  /* ping-pong: this side sends first */

	/* Stamps in ticks, or NULL. Bandwidth: posted_at[i] of the i-th message,
	 * done_at[i] of the completion that made it i+1. Latency: posted_at
	 * only, samples of them. */
	uint64_t *posted_at, *done_at;
	uint64_t samples, sampled;

	volatile uint8_t *poll_byte; /* write ping-pong: where the peer's count shows */
	volatile uint8_t *post_byte; /* and where ours goes */

	uint64_t start, end;     /* ticks; end: when all was sent */
	uint64_t posted;
	uint32_t told;           /* the caller knows that all was sent */
	uint64_t sent, received; /* completed sends, receives, over all queues */
	uint32_t sunacked, runacked;
	struct pf_marks marks;
	int err;
	uint64_t wc_done;
	uint32_t wc_status, wc_vendor, wc_qpn;
};

uint64_t pf_ticks(void);
uint64_t pf_now_ns(void);

void pf_stop(struct pf_control *c);
void pf_close(struct pf_control *c);
void pf_target(struct pf_control *c, uint64_t messages);

/* Fills a queue's receive ring; 0 or an errno. */
int pf_prepost(struct pf_queue *q);

/* PF_MORE: all is sent. The caller tells the peer how many there were, and calls
 * again for the receives that are still due. */
int pf_bw(struct pf_run *r);
int pf_lat_write(struct pf_run *r);
int pf_lat_send(struct pf_run *r);
int pf_lat_single(struct pf_run *r); /* read, atomic: one request at a time */

/* Shared with the files beside loop.c. */

static inline int pf_load(const int *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
static inline uint64_t pf_load64(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }

/* Whether the time of a run is over. It is not before the run's first message, on a
 * machine that is slow to begin: there would be nothing to tell. */
static inline int pf_time_is_over(const struct pf_control *c, uint64_t messages)
{
	return messages && pf_load(&c->closing);
}

/* A wait that counts its own idle rounds and looks at the clock only now and
 * then, since a look may cost a system call. */
struct pf_wait {
	uint64_t since; /* ns, 0: not looked yet */
	uint32_t rounds;
};

static inline void pf_progress(struct pf_wait *w)
{
	w->since = 0;
	w->rounds = 0;
}

/* PF_DONE to go on waiting, PF_STOPPED or PF_TIMEOUT. */
int pf_idle(struct pf_wait *w, const struct pf_control *c, uint64_t timeout_ns);

#endif
