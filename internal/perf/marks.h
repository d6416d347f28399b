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

static inline int pf_marking(const struct pf_marks *m)
{
	return __atomic_load_n(m->semaphore, __ATOMIC_RELAXED) != 0;
}

/* The request is about to be posted, and asks for a completion, as none of the covers - 1
 * before it did. Marks it if it is due, in its id too; then the result is 1. */
int pf_mark_post(struct pf_marks *m, const struct ibv_qp *qp, struct ibv_send_wr *wr, uint64_t sequence, uint32_t covers);

/* Looks for the marked operation among n completions and takes the mark off its id. */
void pf_mark_completions(struct pf_marks *m, struct ibv_wc *wc, int n);

void pf_mark_complete(struct pf_marks *m, uint32_t status);

#endif
