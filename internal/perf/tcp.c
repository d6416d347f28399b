#include "baseline.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

static int io_failed(struct pf_tcp *t)
{
	t->err = errno;
	return errno == ECONNRESET || errno == EPIPE ? PF_CLOSED : PF_IO;
}

/* The socket is not ready: sleep on it, or spin. */
static int not_ready(struct pf_tcp *t, short events, struct pf_wait *w)
{
	struct pollfd p[2] = {
		{.fd = t->fd, .events = events},
		{.fd = t->control->wake_fd, .events = POLLIN},
	};
	uint64_t drop;

	if (t->spin)
		return pf_idle(w, t->control, t->timeout_ns);
	if (poll(p, 2, 100) < 0 && errno != EINTR)
		return io_failed(t);
	if (p[1].revents && read(t->control->wake_fd, &drop, sizeof drop) < 0)
		drop = 0; /* somebody was faster */
	w->rounds = 1023; /* a sleep is long: look at the clock each time */
	return pf_idle(w, t->control, t->timeout_ns);
}

static int send_one(struct pf_tcp *t, struct pf_wait *w)
{
	const uint8_t *p = t->out + t->sent % t->slots * t->stride;
	uint64_t left = t->out_size;
	int rc;

	while (left) {
		ssize_t n = send(t->fd, p, left, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n >= 0) {
			p += n;
			left -= n;
			pf_progress(w);
		} else if (errno == EAGAIN || errno == EINTR) {
			if ((rc = not_ready(t, POLLOUT, w)))
				return rc;
		} else {
			return io_failed(t);
		}
	}
	t->sent++;
	return PF_DONE;
}

/* PF_DONE without a message: the peer has sent all there are. */
static int receive_one(struct pf_tcp *t, struct pf_wait *w)
{
	uint8_t *p = t->in + t->received % t->slots * t->stride;
	uint64_t left = t->in_size;
	int rc;

	while (left) {
		ssize_t n = recv(t->fd, p, left, MSG_DONTWAIT);

		if (n > 0) {
			if (!t->start)
				t->start = pf_ticks(); /* the stream begins to flow */
			p += n;
			left -= n;
			pf_progress(w);
		} else if (n == 0) {
			t->err = ECONNRESET;
			return PF_CLOSED;
		} else if (errno == EAGAIN || errno == EINTR) {
			if (left == t->in_size && t->received >= pf_load64(&t->control->target))
				return PF_DONE;
			if ((rc = not_ready(t, POLLIN, w)))
				return rc;
		} else {
			return io_failed(t);
		}
	}
	t->received++;
	return PF_DONE;
}

int pf_tcp_send(struct pf_tcp *t)
{
	struct pf_wait w = {0};
	int rc = PF_DONE;

	t->start = pf_ticks();
	while (t->sent < t->iters && !pf_time_is_over(t->control, t->sent)) {
		if ((rc = send_one(t, &w)))
			break;
		if (pf_load(&t->control->stop)) {
			rc = PF_STOPPED;
			break;
		}
	}
	t->end = pf_ticks();
	return rc;
}

int pf_tcp_receive(struct pf_tcp *t)
{
	struct pf_wait w = {0};
	int rc = PF_DONE;

	while (t->received < pf_load64(&t->control->target)) {
		if ((rc = receive_one(t, &w)))
			break;
		if (pf_load(&t->control->stop)) {
			rc = PF_STOPPED;
			break;
		}
	}
	t->end = pf_ticks();
	return rc;
}

int pf_tcp_lat(struct pf_tcp *t)
{
	struct pf_wait w = {0};
	int rc = PF_DONE;

	if (!t->start)
		t->start = pf_ticks();
	for (;;) {
		if (!t->first || t->received < t->sent) {
			uint64_t before = t->received;

			pf_progress(&w);
			if ((rc = receive_one(t, &w)))
				break;
			if (t->received == before)
				break;
		}
		if (t->first && (t->received >= t->iters || pf_time_is_over(t->control, t->received)))
			break;
		if (t->posted_at) {
			if (t->sampled == t->samples) {
				t->end = pf_ticks();
				return PF_MORE;
			}
			t->posted_at[t->sampled++] = pf_ticks();
		}
		if ((rc = send_one(t, &w)))
			break;
	}
	t->end = pf_ticks();
	return rc;
}
