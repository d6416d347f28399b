/* Registration of memory regions: how long each call takes, and in which phase.
 *
 * A call is followed from the file operation of the uverbs device to its return.
 * Phases nest (the driver's operation pins pages and maps them); time goes to the
 * innermost one that has begun and not ended, so that the phases of a call add up to
 * the whole. */
#include "calls.h"
#include "cells.h"
#include "registration_events.h"

static __always_inline void finish(void *ctx, struct flight *f)
{
	settle(f, bpf_ktime_get_ns());
	if (!f->known) {
		give_back(f);
		return;
	}
	if (!f->error)
		f->cause = 0; /* tried another way, and it worked */
	else
		fail(f);
	struct cell *c = cell_of(f);
	if (c) {
		__sync_fetch_and_add(&c->bytes, f->length);
		if (f->error)
			__sync_fetch_and_add(&c->failed, 1);
#pragma unroll
		for (u32 i = 0; i < TRACING; i++)
			if (f->spent[i])
				add(c, i, f->spent[i]);
	} else {
		count(LOST_CELLS);
	}
	/* The caller waits for all this too: it is told as a phase. */
	u64 now = bpf_ktime_get_ns(), took = now - f->began;
	f->spent[TRACING] = now - f->mark;
	if (c) {
		add_sum(c, TRACING, f->spent[TRACING]);
		add(c, WHOLE, took);
	}
	if (want_events && took >= slower_than)
		send(ctx, f, took);
	give_back(f);
}

ON_RETURN(call_end, value)
{
	struct flight *f = flight_of_now();

	if (!f || !f->called)
		return 0;
	f->error = error_of(cookie, value);
	blame(f, f->error, UVERBS);
	finish(ctx, f);
	return 0;
}

/* The handler of a registration. Where calls are followed from the file operation, it
 * tells nothing new but of DEVX. */
static __always_inline struct flight *enter(u64 cookie)
{
	struct flight *f = flight_of_now();
	u8 operation = cookie & COOKIE_VALUE;

	/* A handler calls none but that which takes its region back. */
	if (f && !f->called && f->inside && (operation != DEREGISTER || f->operation == DEREGISTER)) {
		lose(f);
		f = NULL;
	}
	if (!f) {
		u32 tgid = tgid_of_now();

		if (wanted(tgid))
			f = begin(tgid, bpf_ktime_get_ns());
	}
	if (!f)
		return NULL;
	if (!f->known) {
		f->known = 1;
		f->operation = operation;
		if (COOKIE_KIND(cookie))
			f->kind = COOKIE_KIND(cookie);
	}
	f->inside++;
	return f;
}

ON_ENTRY_0(handler)
{
	enter(cookie);
	return 0;
}

static __always_inline void keys_of(struct flight *f, struct ib_mr *m)
{
	f->lkey = BPF_CORE_READ(m, lkey);
	f->rkey = BPF_CORE_READ(m, rkey);
}

static __always_inline void region_of(const bool typed, struct flight *f, struct ib_mr *m)
{
	if (f->operation != DEREGISTER)
		return;
	f->length = READ(m, length);
	on_device(typed, f, READ(m, device));
	/* Else it will be seen whose it is. */
	if (f->kind == UNKNOWN && READ(m, type) == IB_MR_TYPE_USER)
		f->kind = HOST;
	if (want_events) {
		f->iova = BPF_CORE_READ(m, iova);
		keys_of(f, m);
	}
}

/* The kernel's own users have regions of other types. */
static __always_inline bool of_a_process(const bool typed, struct ib_mr *m)
{
	u32 type = READ(m, type);

	return type == IB_MR_TYPE_USER || type == IB_MR_TYPE_DM;
}

ON_ENTRY_1(deregister, mr)
{
	struct ib_mr *m = (void *)mr;

	if (!of_a_process(typed, m))
		return 0;
	struct flight *f = enter(cookie);
	if (f)
		region_of(typed, f, m);
	return 0;
}

ON_RETURN(handler_end, value)
{
	struct flight *f = flight_of_now();

	if (!f || !f->inside)
		return 0;
	f->error = error_of(cookie, value);
	blame(f, f->error, UVERBS);
	if (--f->inside == 0 && !f->called)
		finish(ctx, f);
	return 0;
}

/* ib_device_ops.reg_user_mr and reg_user_mr_dmabuf: what follows the address differs
 * between kernels. */
ON_ENTRY_4(driver, pd, start, length, iova)
{
	struct flight *f = flight_of_now();

	if (!f)
		return 0;
	push(f, DRIVER);
	f->length = length;
	f->iova = iova;
	if (COOKIE_KIND(cookie))
		f->kind = COOKIE_KIND(cookie);
	on_device(typed, f, READ((struct ib_pd *)pd, device));
	return 0;
}

/* It returns the region, which has its keys by then. */
ON_RETURN(driver_end, value)
{
	struct flight *f = flight_of_now();

	if (!f)
		return 0;
	pop(f);
	s32 error = error_of(cookie, value);
	if (error || !value) {
		blame(f, error, DRIVER);
		return 0;
	}
	if (f->kind == UNKNOWN)
		f->kind = HOST;
	if (want_events)
		keys_of(f, (void *)value);
	return 0;
}

/* ib_device_ops.dereg_mr. The kernel ends regions without a call too, when the process is
 * gone: the flight begins here then. */
ON_ENTRY_1(ending, mr)
{
	struct flight *f = flight_of_now();
	struct ib_mr *m = (void *)mr;

	if (f && f->ended && !f->depth && !f->inside) {
		lose(f); /* a call ends one region: its end was missed */
		f = NULL;
	}
	if (f) {
		push(f, DRIVER);
	} else {
		u32 tgid = tgid_of_now();

		if (!wanted(tgid) || !of_a_process(typed, m))
			return 0;
		f = begin(tgid, bpf_ktime_get_ns());
		if (!f)
			return 0;
		f->phase = DRIVER;
		f->depth = 1;
	}
	if (!f->known) {
		f->known = 1;
		f->operation = DEREGISTER;
	}
	if (f->depth == 1) /* a driver may end more, of its own */
		region_of(typed, f, m);
	return 0;
}

ON_RETURN(ending_end, value)
{
	struct flight *f = flight_of_now();

	if (!f)
		return 0;
	s32 error = error_of(cookie, value);
	blame(f, error, DRIVER);
	if (f->called || f->inside || f->depth > 1) {
		pop(f);
		if (!f->depth)
			f->ended = !error;
		return 0;
	}
	f->error = error;
	finish(ctx, f);
	return 0;
}

ON_ENTRY_0(phase)
{
	struct flight *f = flight_of_now();

	if (f)
		push(f, cookie & COOKIE_VALUE);
	return 0;
}

ON_RETURN(phase_end, value)
{
	struct flight *f = flight_of_now();

	if (!f)
		return 0;
	pop(f);
	blame(f, error_of(cookie, value), cookie & COOKIE_VALUE);
	return 0;
}

/* What a function's being called tells of the region. */
ON_ENTRY_0(kind_seen)
{
	struct flight *f = flight_of_now();

	if (f && f->kind < COOKIE_KIND(cookie))
		f->kind = COOKIE_KIND(cookie);
	return 0;
}

ON_ENTRY_1(buffer, dma_buf)
{
	struct flight *f = flight_of_now();

	if (!f)
		return 0;
	struct dma_buf *b = (void *)dma_buf;
	f->kind = DMA_BUF;
	f->inode = BPF_CORE_READ(b, file, f_inode, i_ino);
	f->buffer_size = BPF_CORE_READ(b, size);
	bpf_probe_read_kernel_str(f->exporter, sizeof(f->exporter), BPF_CORE_READ(b, exp_name));
	push(f, cookie & COOKIE_VALUE);
	return 0;
}
