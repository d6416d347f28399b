/* Single calls, sent as they end. */
#ifndef PEERDIRECT_REGISTRATION_EVENTS_H
#define PEERDIRECT_REGISTRATION_EVENTS_H

#include "flight.h"
#include "snapshot.h"

struct event {
	u64 at;			/* CLOCK_MONOTONIC, when the call ended */
	u64 took;
	u64 spent[PHASES];
	u64 length, iova, inode, buffer_size;
	u32 tgid, tid, device;
	u32 lkey, rkey;
	s32 error, cause;
	u8 cause_phase, operation, kind, pad;
	u8 exporter[32];
	u8 name[NAME];
	u8 comm[16];
};

/* With want_stacks. */
struct event_stack {
	struct event event;
	struct snapshot snapshot;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

/* Keep these types in the object, for Go. */
const struct event *unused_event __attribute__((unused));
const struct event_stack *unused_event_stack __attribute__((unused));
const enum phase *unused_phase __attribute__((unused));
const enum operation *unused_operation __attribute__((unused));
const enum kind *unused_kind __attribute__((unused));
const enum counter *unused_counter __attribute__((unused));

static __always_inline void device_name(struct flight *f, u8 *to)
{
	struct ib_device *d = (void *)f->ib_device;

	if (d)
		bpf_core_read_str(to, NAME, &d->name);
}

static __always_inline void describe(struct event *e, struct flight *f, u64 took)
{
	u64 id = bpf_get_current_pid_tgid();
	e->at = f->began + took;
	e->took = took;
	__builtin_memcpy(e->spent, f->spent, sizeof(e->spent));
	e->length = f->length;
	e->iova = f->iova;
	e->inode = f->inode;
	e->buffer_size = f->buffer_size;
	e->tgid = id >> 32;
	e->tid = id;
	e->device = f->device;
	e->lkey = f->lkey;
	e->rkey = f->rkey;
	e->error = f->error;
	e->cause = f->cause;
	e->cause_phase = f->cause_phase;
	e->operation = f->operation;
	e->kind = f->kind;
	e->pad = 0;
	__builtin_memcpy(e->exporter, f->exporter, sizeof(e->exporter));
	__builtin_memset(e->name, 0, sizeof(e->name));
	device_name(f, e->name);
	bpf_get_current_comm(e->comm, sizeof(e->comm));
}

static __always_inline void send(void *ctx, struct flight *f, u64 took)
{
	if (want_stacks) {
		struct event_stack *s = bpf_ringbuf_reserve(&events, sizeof(*s), 0);

		if (!s) {
			count(LOST_EVENTS);
			return;
		}
		describe(&s->event, f, took);
		take_snapshot(ctx, &s->snapshot);
		bpf_ringbuf_submit(s, 0);
		return;
	}
	struct event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e) {
		count(LOST_EVENTS);
		return;
	}
	describe(e, f, took);
	bpf_ringbuf_submit(e, 0);
}

#endif
