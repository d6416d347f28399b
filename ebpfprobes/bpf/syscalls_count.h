/* How a call that has ended is counted and sent. */
#ifndef PEERDIRECT_SYSCALLS_COUNT_H
#define PEERDIRECT_SYSCALLS_COUNT_H

#include "syscalls.h"

static __always_inline void add(struct cell *c, struct flight *f, u64 took, bool failed)
{
	u64 slot = slot_of(took);

	barrier_var(slot); /* what is compared below is what is used */
	if (slot >= SLOTS)
		return;
	__sync_fetch_and_add(&c->count, 1);
	__sync_fetch_and_add(&c->bytes, f->length);
	if (failed)
		__sync_fetch_and_add(&c->failed, 1);
	__sync_fetch_and_add(&c->slots[slot], 1);
	__sync_fetch_and_add(&c->sum, took);
	if (took > c->longest)
		c->longest = took; /* two at once may lose the longer one */
}

static __always_inline void fail(struct flight *f, u32 tgid, s32 error, u8 sure)
{
	struct failure_key k = {
		.context = f->context, .tgid = tgid, .error = error,
		.operation = f->operation, .kind = f->kind, .sure = sure,
	};
	u64 one = 1, *n = bpf_map_lookup_elem(&failures, &k);

	if (!n && bpf_map_update_elem(&failures, &k, &one, BPF_NOEXIST)) {
		n = bpf_map_lookup_elem(&failures, &k); /* another was first */
		if (!n)
			count(LOST_CELLS);
	}
	if (n)
		__sync_fetch_and_add(n, 1);
}

static __always_inline void send(struct flight *f, u64 id, u64 took, s32 error, u8 sure)
{
	struct event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e) {
		count(LOST_EVENTS);
		return;
	}
	e->at = f->began + took;
	e->took = took;
	e->length = f->length;
	e->iova = f->iova;
	e->context = f->context;
	e->tgid = id >> 32;
	e->tid = id;
	e->fd = f->fd;
	e->lkey = f->lkey;
	e->rkey = f->rkey;
	e->error = error;
	e->buffer = f->kind == DMA_BUF && f->operation == REGISTER ? f->buffer : -1;
	e->operation = f->operation;
	e->kind = f->kind;
	e->sure = sure;
	e->pad = 0;
	bpf_get_current_comm(e->comm, sizeof(e->comm));
	bpf_ringbuf_submit(e, 0);
}

/* What the kernel wrote into the process. */
static __always_inline void read_answer(struct flight *f)
{
	if (f->handle_at)
		bpf_probe_read_user(&f->handle, sizeof(f->handle), (void *)f->handle_at);
	if (f->lkey_at)
		bpf_probe_read_user(&f->lkey, sizeof(f->lkey), (void *)f->lkey_at);
	if (f->rkey_at)
		bpf_probe_read_user(&f->rkey, sizeof(f->rkey), (void *)f->rkey_at);
}

#endif
