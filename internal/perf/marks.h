/* Marks of operations for tracers: what package marker does in Go, for the loops in C.
 * One operation of a run is marked at a time, and the next a while later. */
#ifndef PEERDIRECT_PERF_MARKS_H
#define PEERDIRECT_PERF_MARKS_H

#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

/* marker.Mark: the notes of the sites tell tracers where its members are. */
struct pf_mark {
	const char *device;
	uint64_t id, ns, bytes;
	uint32_t qp, opcode, status, passed;
};

_Static_assert(offsetof(struct pf_mark, ns) == 16 && offsetof(struct pf_mark, qp) == 32 &&
	       offsetof(struct pf_mark, passed) == 44, "as internal/marker/sites has it");

struct pf_marks {
	const uint32_t *semaphore; /* not 0: a tracer is attached */
	void (*post)(struct pf_mark *), (*complete)(struct pf_mark *);
	struct pf_mark mark;
	uint32_t waiting;          /* an operation is marked and has not completed */
	uint64_t left, passed;     /* operations to let pass, and that have passed */
	uint64_t posted;           /* ns */
};

/* The highest bit of a request's id, which is a queue's number else. */
#define PF_MARKED (1ull << 63)

/* Of an operation that the device did not take: marker.NotTaken. */
#define PF_NOT_TAKEN UINT32_MAX

/* The build tag nomarks: as if there were none, to measure what they cost. */
#ifdef PF_NO_MARKS
#define PF_MARKS 0
#else
#define PF_MARKS 1
#endif

static inline int pf_marking(const struct pf_marks *m)
{
	return PF_MARKS && __builtin_expect(__atomic_load_n(m->semaphore, __ATOMIC_RELAXED) != 0, 0);
}

static inline int pf_mark_flies(const struct pf_marks *m) { return PF_MARKS && __builtin_expect(m->waiting, 0); }

/* ibv_post_send of a group of requests, whose last one, tail, alone asks for a completion.
 * Marks it if it is due. It is out of line, so that the loops stay as short as without. */
__attribute__((cold)) int pf_post_marked(struct pf_marks *m, struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr *tail, uint64_t sequence);

/* Looks for the marked operation among n completions and takes the mark off its id. */
__attribute__((cold)) void pf_mark_completions(struct pf_marks *m, struct ibv_wc *wc, int n);

#endif
