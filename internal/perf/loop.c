#include "loop.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

uint64_t pf_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The cheapest clock there is: a system call a stamp, which is what
 * clock_gettime costs on some virtual machines, would show in the latency. */
static inline uint64_t ticks(void)
{
#if defined(__x86_64__)
	return __rdtsc();
#elif defined(__aarch64__)
	uint64_t t;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
	return t;
#else
	return pf_now_ns();
#endif
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
	/* After some microseconds without a result it may be that whoever is to
	 * bring it (a software RDMA driver, the other side on this machine) waits
	 * for this very processor. A device that answers faster never sees this. */
	if (!(w->rounds & (PF_PATIENCE - 1)))
		sched_yield();
	if (w->rounds & 1023)
		return PF_DONE;
	now = pf_now_ns();
	if (!w->since)
		w->since = now;
	return now - w->since > timeout_ns ? PF_TIMEOUT : PF_DONE;
}

static int post_failed(struct pf_run *r, int err)
{
	r->err = err < 0 ? -err : err;
	return PF_POST;
}

static int poll_failed(struct pf_run *r, int n)
{
	r->err = n == -1 ? EIO : -n;
	return PF_POLL;
}

static int wc_failed(struct pf_run *r, const struct ibv_wc *wc)
{
	r->wc_status = wc->status;
	r->wc_vendor = wc->vendor_err;
	r->wc_qpn = wc->qp_num;
	return PF_WC;
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

static void acknowledge(struct pf_run *r)
{
	if (r->sunacked)
		r->ack_events(r->scq, r->sunacked);
	if (r->runacked)
		r->ack_events(r->rcq, r->runacked);
	r->sunacked = r->runacked = 0;
}

/* idle is called in a round that found nothing. When armed comes in as 0 the
 * queues are armed and the caller polls once more, since what arrived before
 * raises no event; then it sleeps. */
static int idle(struct pf_run *r, struct pf_wait *w, int *armed)
{
	int rc, saved;

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
	saved = sleep_on(r);
	if (saved)
		return saved;
	w->rounds |= 1023; /* a sleep is long: look at the clock each time */
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

/* A receive that was consumed is posted again; the ring keeps their order. */
static int repost(struct pf_run *r, struct pf_queue *q)
{
	struct ibv_recv_wr *bad;
	int rc = ibv_post_recv(q->qp, &q->rwr[q->rnext], &bad);

	if (rc)
		return post_failed(r, rc);
	if (++q->rnext == q->rring)
		q->rnext = 0;
	return PF_DONE;
}

/* The request's id tells its queue and how many sends its completion stands
 * for, so that unsignalled ones need no bookkeeping. */
#define ID(queue, covers) ((uint64_t)(queue) << 32 | (covers))
#define ID_QUEUE(id) ((uint32_t)((id) >> 32))
#define ID_COVERS(id) ((uint32_t)(id))

/* Posts one group of list requests. last asks for a completion in any case. */
static inline int post_group(struct pf_run *r, uint32_t index, int last)
{
	struct pf_queue *q = &r->q[index];
	struct ibv_send_wr *wr = &q->wr[q->next], *tail = wr + r->list - 1, *bad;
	int rc;

	q->since += r->list;
	if (last || q->since >= r->cq_mod) {
		tail->send_flags = r->flags | IBV_SEND_SIGNALED;
		tail->wr_id = ID(index, q->since);
		q->since = 0;
	} else {
		tail->send_flags = r->flags;
	}
	rc = ibv_post_send(q->qp, wr, &bad);
	if (rc)
		return post_failed(r, rc);
	q->next += r->list;
	if (q->next == q->ring)
		q->next = 0;
	q->posted += r->list;
	q->sent_ever += r->list;
	return PF_DONE;
}

static inline int has_credit(const struct pf_run *r, const struct pf_queue *q)
{
	return !q->credit || q->sent_ever + r->list <= *q->credit;
}

/* Shows the peer the room that has come up, in halves of the receive queue. */
static int offer(struct pf_run *r, uint32_t index)
{
	struct pf_queue *q = &r->q[index];
	uint64_t room = q->received_ever + q->rring;
	uint32_t half = q->rring / 2 ? q->rring / 2 : 1;
	struct ibv_send_wr *bad;
	int rc;

	if (!q->credit_wr || room - q->offered < half || q->offers == PF_OFFERS)
		return PF_DONE;
	/* An offer that is still on its way may show this value already: there
	 * is room for as many by now. */
	__atomic_store_n(q->offer, room, __ATOMIC_RELEASE);
	q->credit_wr->wr_id = ID(index, 0);
	if ((rc = ibv_post_send(q->qp, q->credit_wr, &bad)))
		return post_failed(r, rc);
	q->offered = room;
	q->offers++;
	return PF_DONE;
}

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

static inline int drain_sends(struct pf_run *r)
{
	struct ibv_wc wc[PF_BATCH];
	int n = ibv_poll_cq(r->scq, PF_BATCH, wc), i;

	if (n < 0)
		return -poll_failed(r, n);
	for (i = 0; i < n; i++) {
		uint32_t covers = ID_COVERS(wc[i].wr_id);

		if (wc[i].status != IBV_WC_SUCCESS)
			return -wc_failed(r, &wc[i]);
		if (!covers) {
			r->q[ID_QUEUE(wc[i].wr_id)].offers--;
			continue;
		}
		r->q[ID_QUEUE(wc[i].wr_id)].completed += covers;
		r->sent += covers;
		if (r->done_at)
			r->done_at[r->sent - 1] = ticks();
	}
	return n;
}

static inline int drain_receives(struct pf_run *r)
{
	struct ibv_wc wc[PF_BATCH];
	int n = ibv_poll_cq(r->rcq, PF_BATCH, wc), i, rc;

	if (n < 0)
		return -poll_failed(r, n);
	for (i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			return -wc_failed(r, &wc[i]);
		if ((rc = repost(r, &r->q[wc[i].wr_id])))
			return -rc;
		r->q[wc[i].wr_id].received_ever++;
		if ((rc = offer(r, wc[i].wr_id)))
			return -rc;
	}
	r->received += n;
	return n;
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
		int closing = pf_load(&r->control->closing), found = 0, n;
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
			rc = out_of_credit(r) ? pf_idle(&w, r->control, r->timeout_ns) : idle(r, &w, &armed);
			if (rc)
				break;
		}
		if (found && pf_load(&r->control->stop)) {
			rc = PF_STOPPED;
			break;
		}
	}
out:
	acknowledge(r);
	return rc;
}

/* The send completion of a ping-pong's own message: one is in flight. */
static int own_completion(struct pf_run *r, struct pf_wait *w)
{
	int armed = 0, n, rc;

	pf_progress(w);
	for (;;) {
		n = drain_sends(r);
		if (n)
			return n < 0 ? -n : PF_DONE;
		if ((rc = idle(r, w, &armed)))
			return rc;
	}
}

/* Whether a ping-pong is over, seen before its next message: the side that
 * begins ends it, by count or by the clock, and tells the other how many there
 * were. */
static inline int over(const struct pf_run *r, uint64_t answered)
{
	if (r->first)
		return answered >= r->iters || pf_load(&r->control->closing);
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
			while (*r->poll_byte != count) {
				if (!r->first && r->received >= pf_load64(&r->control->target))
					goto out_done;
				if ((rc = pf_idle(&w, r->control, r->timeout_ns)))
					goto out;
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
		if ((rc = idle(r, w, &armed)))
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
	acknowledge(r);
	return rc;
}

int pf_lat_single(struct pf_run *r)
{
	struct pf_wait w = {0};
	int rc = PF_DONE;

	if (!r->start)
		r->start = ticks();
	while (r->sent < r->iters && !pf_load(&r->control->closing)) {
		if ((rc = stamp(r)))
			return rc;
		if ((rc = post_group(r, 0, 1)) || (rc = own_completion(r, &w)))
			break;
	}
	r->end = ticks();
	acknowledge(r);
	return rc;
}
