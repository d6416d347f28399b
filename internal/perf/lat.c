#include "steps.h"

#include <sched.h>

/* The send completion of a ping-pong's own message: one is in flight. */
static int own_completion(struct pf_run *r, struct pf_wait *w)
{
	int armed = 0, n, rc;

	pf_progress(w);
	for (;;) {
		n = drain_sends(r);
		if (n < 0)
			return -n;
		if (n)
			return pf_load(&r->control->stop) ? PF_STOPPED : PF_DONE;
		if ((rc = pf_rest(r, w, &armed)))
			return rc;
	}
}

/* Whether a ping-pong is over, seen before its next message: the side that
 * begins ends it, by count or by the clock, and tells the other how many there
 * were. */
static inline int over(const struct pf_run *r, uint64_t answered)
{
	if (r->first)
		return answered >= r->iters || pf_time_is_over(r->control, answered);
	return answered >= pf_load64(&r->control->target);
}

/* Takes the stamp of a message. PF_MORE: there is no room for it; end then is
 * where the message before ended, and the time until the next call is in no
 * sample. */
static inline int stamp(struct pf_run *r)
{
	if (!r->posted_at)
		return PF_DONE;
	if (r->sampled == r->samples) {
		r->end = ticks();
		return PF_MORE;
	}
	r->posted_at[r->sampled++] = ticks();
	return PF_DONE;
}

/* Looks at a byte several times: what else a wait looks at can wait. */
static inline int shows(volatile uint8_t *byte, uint8_t want)
{
	int i;

	for (i = 0; i < 64; i++)
		if (*byte == want)
			return 1;
	return 0;
}

int pf_lat_write(struct pf_run *r)
{
	struct pf_wait w = {0};
	int rc;

	if (!r->start)
		r->start = ticks();
	for (;;) {
		/* The side that begins has an answer to wait for once it has
		 * sent; the other one waits always. Only after PF_MORE is a
		 * message that came before not yet answered. */
		if (r->received < r->sent || (!r->first && r->received == r->sent)) {
			uint8_t count = (uint8_t)(r->received + 1);

			pf_progress(&w);
			while (!shows(r->poll_byte, count)) {
				if (!r->first && r->received >= pf_load64(&r->control->target))
					goto out_done;
				if ((rc = pf_idle(&w, r->control, r->timeout_ns)))
					goto out;
				/* No driver is entered here, as it is to poll a
				 * queue: nobody else could be let in. */
				if (!(w.rounds & (PF_LOOKS - 1)))
					sched_yield();
			}
			r->received++;
		}
		if (r->first && over(r, r->received))
			goto out_done;
		if ((rc = stamp(r)))
			return rc;
		*r->post_byte = (uint8_t)(r->sent + 1);
		if ((rc = post_group(r, 0, 1)) || (rc = own_completion(r, &w)))
			goto out;
	}
out_done:
	rc = PF_DONE;
out:
	r->end = ticks();
	return rc;
}

/* Waits for the peer's message. */
static int await(struct pf_run *r, struct pf_wait *w)
{
	int armed = 0, n, rc;

	pf_progress(w);
	for (;;) {
		n = drain_receives(r);
		if (n)
			return n < 0 ? -n : PF_DONE;
		if (!r->first && over(r, r->received))
			return PF_DONE;
		if ((rc = pf_rest(r, w, &armed)))
			return rc;
	}
}

int pf_lat_send(struct pf_run *r)
{
	struct pf_wait w = {0};
	int rc;

	if (!r->start)
		r->start = ticks();
	for (;;) {
		if (r->received < r->sent || (!r->first && r->received == r->sent)) {
			uint64_t before = r->received;

			if ((rc = await(r, &w)))
				goto out;
			if (r->received == before) /* the peer is done */
				goto out_done;
		}
		if (r->first && over(r, r->received))
			goto out_done;
		if ((rc = stamp(r)))
			return rc;
		if ((rc = post_group(r, 0, 1)) || (rc = own_completion(r, &w)))
			goto out;
	}
out_done:
	rc = PF_DONE;
out:
	r->end = ticks();
	pf_acknowledge(r);
	return rc;
}

int pf_lat_single(struct pf_run *r)
{
	struct pf_wait w = {0};
	int rc = PF_DONE;

	if (!r->start)
		r->start = ticks();
	while (r->sent < r->iters && !pf_time_is_over(r->control, r->sent)) {
		if ((rc = stamp(r)))
			return rc;
		if ((rc = post_group(r, 0, 1)) || (rc = own_completion(r, &w)))
			break;
	}
	r->end = ticks();
	pf_acknowledge(r);
	return rc;
}
