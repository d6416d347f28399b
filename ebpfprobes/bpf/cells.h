/* What is counted of calls: histograms by key, and failures. */
#ifndef PEERDIRECT_CELLS_H
#define PEERDIRECT_CELLS_H

#include "flight.h"
#include "quick.h"

struct cell_key {
	u32 tgid, device;
	u8 operation, kind, size, pad; /* size: n for lengths of 2^n to 2^(n+1)-1 */
};

/* Times by phase, and of the whole call last. How often the programs themselves took how
 * long is not counted. */
struct cell {
	u64 failed, bytes;
	u64 sum[PHASES + 1], longest[PHASES + 1];
	u32 slots[PHASES][SLOTS];	/* the whole call at TRACING */
	u8 above[PHASES][SLOTS];	/* their upper bits; twice as wide, a cell is more than 32 KiB */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct cell_key);
	__type(value, struct cell);
} cells SEC(".maps");

/* Failures by what failed: bounded by the errnos that there are. */
struct failure_key {
	u32 tgid, device;
	s32 error, cause;
	u8 operation, kind, cause_phase, pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct failure_key);
	__type(value, u64);
} failures SEC(".maps");

static const struct cell empty = {};

static __always_inline void add_sum(struct cell *c, u32 phase, u64 took)
{
	__sync_fetch_and_add(&c->sum[phase], took);
	if (took > c->longest[phase])
		c->longest[phase] = took; /* two at once may lose the longer one */
}

static __always_inline void add(struct cell *c, u32 phase, u64 took)
{
	u32 at = phase == WHOLE ? TRACING : phase, slot = quick_slot_of(took);

	if (__sync_fetch_and_add(&c->slots[at][slot], 1) == 0xffffffff)
		c->above[at][slot]++;
	add_sum(c, phase, took);
}

static __always_inline void fail(struct flight *f)
{
	struct failure_key k = {
		.tgid = f->tgid, .device = f->device, .error = f->error, .cause = f->cause,
		.operation = f->operation, .kind = f->kind, .cause_phase = f->cause_phase,
	};
	u64 one = 1, *n = bpf_map_lookup_elem(&failures, &k);

	if (n)
		__sync_fetch_and_add(n, 1);
	else if (bpf_map_update_elem(&failures, &k, &one, BPF_NOEXIST)) {
		n = bpf_map_lookup_elem(&failures, &k); /* another was first */
		if (n)
			__sync_fetch_and_add(n, 1);
		else
			count(LOST_CELLS);
	}
}

static __always_inline struct cell *cell_of(struct flight *f)
{
	struct cell_key k = {
		.tgid = f->tgid, .device = f->device,
		.operation = f->operation, .kind = f->kind, .size = quick_bit_of(f->length),
	};
	struct cell *c = bpf_map_lookup_elem(&cells, &k);

	if (c)
		return c;
	bpf_map_update_elem(&cells, &k, &empty, BPF_NOEXIST);
	c = bpf_map_lookup_elem(&cells, &k);
	if (c) {
		note_process(f->tgid);
		if (f->device != NO_DEVICE)
			note_device(f->device, (void *)f->ib_device);
	}
	return c;
}

#endif
