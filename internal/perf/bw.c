#include "steps.h"

#include <sched.h>

/* Posts on one queue as much as there is room for. */
static inline int fill(struct pf_run *r, uint32_t index, int closing, uint64_t *posted)
{
	struct pf_queue *q = &r->q[index];
	int rc;

	while (q->posted < r->iters && q->posted - q->completed + r->list <= r->depth && has_credit(r, q)) {
		int last;

		/* When time is up, one more group brings the completion of
		 * those that asked for none. */
		if (closing && !q->since)
			break;
		last = closing || q->posted + r->list >= r->iters;
		if (r->posted_at)
			r->posted_at[*posted] = ticks();
		if ((rc = post_group(r, index, last)))
			return rc;
		*posted += r->list;
	}
	return PF_DONE;
}

static int offers_in_flight(const struct pf_run *r)
{
	uint32_t i;

	for (i = 0; i < r->queues; i++)
		if (r->q[i].offers)
			return 1;
	return 0;
}

/* Whether a queue waits for the peer's room, of which no event tells. */
static int out_of_credit(const struct pf_run *r)
{
	uint32_t i;

	for (i = 0; i < r->queues; i++)
		if (r->q[i].posted < r->iters && !has_credit(r, &r->q[i]))
			return 1;
	return 0;
}

static int all_sent(const struct pf_run *r, int closing)
{
	uint32_t i;

	if (!r->iters)
		return 1;
	if (!closing)
		return r->sent == r->iters * r->queues;
	for (i = 0; i < r->queues; i++)
		if (r->q[i].since || r->q[i].completed != r->q[i].posted)
			return 0;
	return 1;
}

int pf_bw(struct pf_run *r)
{
	struct pf_wait w = {0};
	uint64_t posted = r->posted;
	int armed = 0, rc = PF_DONE;

	if (!r->start)
		r->start = ticks();
	for (;;) {
		int closing = pf_time_is_over(r->control, posted), found = 0, n;
		uint64_t before = posted;
		uint32_t i;

		if (r->iters) {
			for (i = 0; i < r->queues; i++)
				if ((rc = fill(r, i, closing, &posted)))
					goto out;
		}
		if (r->sent < posted || offers_in_flight(r)) {
			n = drain_sends(r);
			if (n < 0) {
				rc = -n;
				goto out;
			}
			found += n;
		}
		if (r->rcq) {
			n = drain_receives(r);
			if (n < 0) {
				rc = -n;
				goto out;
			}
			found += n;
		}
		if (found) {
			armed = 0;
			pf_progress(&w);
		}
		if (!r->told && all_sent(r, closing)) {
			r->end = ticks();
			r->told = 1;
			r->posted = posted;
			if (r->rcq) {
				rc = PF_MORE;
				break;
			}
		}
		if (r->told && (!r->rcq || r->received >= pf_load64(&r->control->target)))
			break;
		if (!found && posted == before) {
			rc = out_of_credit(r) ? pf_idle(&w, r->control, r->timeout_ns) : pf_rest(r, &w, &armed);
			if (rc)
				break;
			/* With the queues full and nothing done for so long,
			 * whoever is to do it (a software RDMA driver, the other
			 * side on this machine) may be waiting for this very
			 * processor. The latency loops spin on: there the wait is
			 * what is measured. */
			if (!r->sch && !(w.rounds & (PF_PATIENCE - 1)))
				sched_yield();
		}
		if (found && pf_load(&r->control->stop)) {
			rc = PF_STOPPED;
			break;
		}
	}
out:
	pf_acknowledge(r);
	return rc;
}
