#include "steps.h"

#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

uint64_t pf_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t pf_ticks(void) { return ticks(); }

static void wake(struct pf_control *c)
{
	uint64_t one = 1;

	if (c->wake_fd >= 0 && write(c->wake_fd, &one, sizeof one) < 0)
		return; /* full: it is readable already */
}

void pf_stop(struct pf_control *c)
{
	__atomic_store_n(&c->stop, 1, __ATOMIC_RELEASE);
	wake(c);
}

void pf_close(struct pf_control *c)
{
	__atomic_store_n(&c->closing, 1, __ATOMIC_RELEASE);
	wake(c);
}

void pf_target(struct pf_control *c, uint64_t messages)
{
	__atomic_store_n(&c->target, messages, __ATOMIC_RELEASE);
	wake(c);
}

int pf_idle(struct pf_wait *w, const struct pf_control *c, uint64_t timeout_ns)
{
	uint64_t now;

	if (pf_load(&c->stop))
		return PF_STOPPED;
	w->rounds++;
	if (w->rounds & 1023)
		return PF_DONE;
	now = pf_now_ns();
	if (!w->since)
		w->since = now;
	return now - w->since > timeout_ns ? PF_TIMEOUT : PF_DONE;
}

/* A sleep ends with an event, with pf_stop and its like, or after a while, so
 * that the deadline is looked at. */
static int sleep_on(struct pf_run *r)
{
	struct pollfd p[3];
	uint64_t drop;
	int n = 0, i, rc;

	p[n++] = (struct pollfd){.fd = r->control->wake_fd, .events = POLLIN};
	if (r->sch)
		p[n++] = (struct pollfd){.fd = r->sch->fd, .events = POLLIN};
	if (r->rch)
		p[n++] = (struct pollfd){.fd = r->rch->fd, .events = POLLIN};
	rc = poll(p, n, 100);
	if (rc < 0 && errno != EINTR) {
		r->err = errno;
		return PF_EVENT;
	}
	if (rc <= 0)
		return PF_DONE;
	if (p[0].revents && read(r->control->wake_fd, &drop, sizeof drop) < 0)
		drop = 0; /* somebody was faster */
	for (i = 1; i < n; i++) {
		struct ibv_comp_channel *ch = p[i].fd == (r->sch ? r->sch->fd : -1) ? r->sch : r->rch;
		struct ibv_cq *cq;
		void *context;

		if (!p[i].revents)
			continue;
		if (r->get_event(ch, &cq, &context)) {
			if (errno == EAGAIN || errno == EINTR)
				continue;
			r->err = errno;
			return PF_EVENT;
		}
		/* Each acknowledgement takes a mutex: do several at once. */
		if (cq == r->scq) {
			if (++r->sunacked == 64) {
				r->ack_events(cq, r->sunacked);
				r->sunacked = 0;
			}
		} else if (++r->runacked == 64) {
			r->ack_events(cq, r->runacked);
			r->runacked = 0;
		}
	}
	return PF_DONE;
}

void pf_acknowledge(struct pf_run *r)
{
	if (r->sunacked)
		r->ack_events(r->scq, r->sunacked);
	if (r->runacked)
		r->ack_events(r->rcq, r->runacked);
	r->sunacked = r->runacked = 0;
}

int pf_rest(struct pf_run *r, struct pf_wait *w, int *armed)
{
	int rc;

	if (!r->sch && !r->rch)
		return pf_idle(w, r->control, r->timeout_ns);
	if (!*armed) {
		*armed = 1;
		if ((r->sch && (rc = ibv_req_notify_cq(r->scq, 0))) ||
		    (r->rch && (rc = ibv_req_notify_cq(r->rcq, 0)))) {
			r->err = rc;
			return PF_EVENT;
		}
		return PF_DONE;
	}
	*armed = 0;
	if ((rc = sleep_on(r)))
		return rc;
	w->rounds = 1023; /* a sleep is long: look at the clock each time */
	return pf_idle(w, r->control, r->timeout_ns);
}

int pf_prepost(struct pf_queue *q)
{
	struct ibv_recv_wr *bad;
	uint32_t i;
	int rc;

	for (i = 0; i < q->rring; i++)
		if ((rc = ibv_post_recv(q->qp, &q->rwr[i], &bad)))
			return rc < 0 ? -rc : rc;
	q->rnext = 0;
	return 0;
}
