#include "baseline.h"

#include <sched.h>
#include <string.h>

static inline uint64_t seen(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline void show(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }

static int spin(struct pf_shm *s, struct pf_wait *w)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
	/* On a machine with one processor the other side waits for this one. */
	if ((w->rounds & 1023) == 1023)
		sched_yield();
	return pf_idle(w, s->control, s->timeout_ns);
}

static inline uint8_t *slot(const struct pf_shm *s, uint8_t *base, uint64_t message)
{
	return base + message % s->slots * s->stride;
}

int pf_shm_write(struct pf_shm *s)
{
	struct pf_wait w = {0};
	uint64_t i = 0;
	int rc = PF_DONE;

	s->start = pf_ticks();
	while (i < s->iters && !pf_time_is_over(s->control, i)) {
		if (i - seen(&s->tail) >= s->slots) {
			if ((rc = spin(s, &w)))
				break;
			continue;
		}
		pf_progress(&w);
		memcpy(slot(s, s->shared, i), slot(s, s->src, i), s->size);
		show(&s->head, ++i);
		if (pf_load(&s->control->stop)) {
			rc = PF_STOPPED;
			break;
		}
	}
	/* All has arrived when all was taken. */
	pf_progress(&w);
	while (!rc && seen(&s->tail) < i)
		rc = spin(s, &w);
	s->end = pf_ticks();
	s->sent = i;
	pf_target(s->control, i);
	return rc;
}

/* The next message is there: 1; there is no more: 0; else a status, negative. */
static int arrived(struct pf_shm *s, uint64_t i, struct pf_wait *w)
{
	int rc;

	pf_progress(w);
	while (seen(&s->head) <= i) {
		if (i >= pf_load64(&s->control->target))
			return 0;
		if ((rc = spin(s, w)))
			return -rc;
	}
	return 1;
}

int pf_shm_take(struct pf_shm *s)
{
	struct pf_wait w = {0};
	uint64_t i = 0;
	int rc;

	while ((rc = arrived(s, i, &w)) > 0) {
		if (s->copy_out)
			memcpy(slot(s, s->dst, i), slot(s, s->shared, i), s->size);
		show(&s->tail, ++i);
	}
	return -rc;
}

int pf_shm_ping(struct pf_shm *s)
{
	struct pf_wait w = {0};
	int rc = PF_DONE;

	if (!s->start)
		s->start = pf_ticks();
	while (s->sent < s->iters && !pf_time_is_over(s->control, s->sent)) {
		if (s->posted_at) {
			if (s->sampled == s->samples) {
				s->end = pf_ticks();
				return PF_MORE;
			}
			s->posted_at[s->sampled++] = pf_ticks();
		}
		memcpy(slot(s, s->shared, s->sent), slot(s, s->src, s->sent), s->size);
		show(&s->head, ++s->sent);
		pf_progress(&w);
		while (!rc && seen(&s->tail) < s->sent)
			rc = spin(s, &w);
		if (rc)
			break;
	}
	s->end = pf_ticks();
	pf_target(s->control, s->sent);
	return rc;
}

int pf_shm_pong(struct pf_shm *s)
{
	/* The answer goes to the place that the message came from: the two never
	 * write at the same time. */
	struct pf_wait w = {0};
	uint64_t i = 0;
	int rc;

	while ((rc = arrived(s, i, &w)) > 0) {
		if (s->copy_out)
			memcpy(slot(s, s->dst, i), slot(s, s->shared, i), s->size);
		memcpy(slot(s, s->shared, i), slot(s, s->src, i), s->size);
		show(&s->tail, ++i);
	}
	return -rc;
}

/* A stamp a copy where they are asked for. */
static int alone(struct pf_shm *s, int atomic)
{
	if (!s->start)
		s->start = pf_ticks();
	while (s->sent < s->iters && !pf_time_is_over(s->control, s->sent)) {
		if (s->posted_at) {
			if (s->sampled == s->samples) {
				s->end = pf_ticks();
				return PF_MORE;
			}
			s->posted_at[s->sampled++] = pf_ticks();
		}
		if (atomic) {
			uint64_t was = __atomic_fetch_add(&s->counter, 1, __ATOMIC_SEQ_CST);

			memcpy(slot(s, s->dst, s->sent), &was, sizeof was);
		} else {
			memcpy(slot(s, s->dst, s->sent), slot(s, s->shared, s->sent), s->size);
		}
		s->sent++;
		if (pf_load(&s->control->stop)) {
			s->end = pf_ticks();
			return PF_STOPPED;
		}
	}
	s->end = pf_ticks();
	return PF_DONE;
}

int pf_shm_read(struct pf_shm *s) { return alone(s, 0); }
int pf_shm_atomic(struct pf_shm *s) { return alone(s, 1); }
