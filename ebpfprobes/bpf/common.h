/* Shared by the programs: filters, counters of what was lost, histograms. */
#ifndef PEERDIRECT_COMMON_H
#define PEERDIRECT_COMMON_H

#include "probe.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Set before loading. */
const volatile u32 only_process = 0;	/* a process (tgid); 0 is all */
const volatile u32 skip_process = 0;	/* the tracer's own */
const volatile u8 want_events = 0;	/* send each call */
const volatile u64 slower_than = 0;	/* of these, those that took as long, ns */
const volatile u8 want_stacks = 0;

/* What was lost, and how much was seen: counters in Go's order. */
enum counter {
	LOST_FLIGHTS,		/* not followed: more at once than the table holds */
	LOST_CELLS,		/* not counted: the table of histograms is full */
	LOST_EVENTS,		/* not sent: the reader was too slow */
	LOST_REGIONS,		/* not kept: more live objects than the table holds */
	LOST_NAMES,		/* process or device shown by number */
	LOST_STACKS,		/* of the kernel: its place in the table is another's */
	COUNTERS,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, u32);
	__type(value, u64);
} counters SEC(".maps");

static __always_inline void count(u32 what)
{
	u64 *n = bpf_map_lookup_elem(&counters, &what);
	if (n)
		*n += 1;
}

/* A histogram of ns: 16 slots an octave, so that a slot is 6 % wide at most; below
 * 16 one slot each. The last slot takes what is longer (2^41 ns is 36 minutes). */
#define SLOT_BITS 4
#define SLOTS ((41 - SLOT_BITS + 1) << SLOT_BITS)

static __always_inline u32 bit_of(u64 v)
{
	u32 n = 0;

	if (v >> 32) { n += 32; v >>= 32; }
	if (v >> 16) { n += 16; v >>= 16; }
	if (v >> 8) { n += 8; v >>= 8; }
	if (v >> 4) { n += 4; v >>= 4; }
	if (v >> 2) { n += 2; v >>= 2; }
	return n + (v >> 1);
}

/* Functions of their own, which the verifier checks once, not once a call: each of
 * their branches would double what it has to look at. */
__attribute__((noinline)) u32 highest_bit(u64 v)
{
	return bit_of(v);
}

__attribute__((noinline)) u32 slot_of(u64 v)
{
	u32 top = bit_of(v);

	if (top < SLOT_BITS)
		return v;
	u32 slot = ((top - SLOT_BITS + 1) << SLOT_BITS) +
		   ((v >> (top - SLOT_BITS)) & ((1 << SLOT_BITS) - 1));
	return slot < SLOTS ? slot : SLOTS - 1;
}

/* A name stays as it was first seen; that another was first is no loss. */
#define EEXIST 17

static __always_inline void keep_name(void *names, const void *key, const void *name)
{
	if (bpf_map_lookup_elem(names, key))
		return;
	long error = bpf_map_update_elem(names, key, name, BPF_NOEXIST);

	if (error && error != -EEXIST)
		count(LOST_NAMES);
}

static __always_inline bool wanted(u32 tgid)
{
	return tgid != skip_process && (!only_process || tgid == only_process);
}

#endif
