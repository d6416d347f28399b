/* A call in flight: which thread is in it, and how its time is divided among phases. */
#ifndef PEERDIRECT_FLIGHT_H
#define PEERDIRECT_FLIGHT_H

#include "common.h"
#include "generation.h"
#include "names.h"
#include "process.h"

enum phase {
	UVERBS,		/* the system call outside of everything below */
	DRIVER,		/* the driver's operation outside of everything below */
	PIN,		/* pages of the process are pinned */
	MAP,		/* they are mapped for the device */
	ATTACH,		/* dma-buf: attached to the exporter */
	BUFFER_PIN,	/* dma-buf: the exporter pins it */
	BUFFER_MAP,	/* dma-buf: the exporter maps it */
	FENCE,		/* waited until the buffer's work in flight was done */
	COMMAND,	/* the device carries out a command */
	TRACING,	/* these programs themselves, at the end of the call */
	PHASES,
};
#define WHOLE PHASES /* its place beside the phases */

enum operation { REGISTER, REREGISTER, DEREGISTER };

enum kind { UNKNOWN, HOST, ON_DEMAND, DMA_BUF, DEVX };

/* Cookies: a phase or an operation, and how the return value tells an error. */
#define COOKIE_VALUE 0xff
#define RETURNS_POINTER 0x100
#define RETURNS_LONG 0x400
#define COOKIE_KIND(c) (((c) >> 12) & 0xf)

#define DEPTH 8

/* A thread's call in flight. */
struct flight {
	u64 owner;		/* mine() while it is in flight; 0 is free */
	u64 began, mark;	/* of CLOCK_MONOTONIC; mark: when the phase of now began */
	u64 spent[PHASES];
	u64 length, iova, inode, buffer_size;
	u64 ib_device;		/* the kernel's address, to read the name from if need be */
	u32 tgid, device;
	u32 lkey, rkey;
	s32 error;		/* what the call returned, negative errno */
	s32 cause;		/* what the innermost function that failed returned */
	union {
		u64 all;	/* of the following, to clear them in one */
		struct {
			u8 called;	/* began with the file operation */
			u8 known;	/* operation is */
			u8 operation, kind;
			u8 phase;	/* of now */
			u8 depth;
			u8 inside;	/* handlers that have begun and not ended */
			u8 ended;	/* the driver has ended the region */
		};
	};
	u8 cause_phase;
	u8 outer[DEPTH];	/* phases around the one of now */
	u8 exporter[32];
};

/* Most are in a table that is found without a call: a thread has one place there. Where
 * another's flight is, one that stays with the thread does, so that all are followed. */
#define PLACE_BITS 10
struct flight places[1 << PLACE_BITS] = {};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flight);
} flights SEC(".maps");

/* After all that was done to a flight: its place may be another's at once. */
static __always_inline void give_back(struct flight *f)
{
	__sync_lock_test_and_set(&f->owner, 0);
}

static __always_inline void lose(struct flight *f)
{
	give_back(f);
	count(LOST_FLIGHTS);
}

/* Tells this thread in this generation from all others: addresses of the kernel begin
 * with 16 bits that are all alike. */
static __always_inline u64 mine(u64 task)
{
	return task << 16 | (generation & 0xffff);
}

static __always_inline struct flight *place_of(u64 task)
{
	return &places[(task * 0x9e3779b97f4a7c15ULL) >> (64 - PLACE_BITS)];
}

/* With the thread, or lost since programs were detached. */
static __always_inline struct flight *flight_elsewhere(struct flight *place, u64 owner)
{
	struct flight *f = bpf_task_storage_get(&flights, bpf_get_current_task_btf(), NULL, 0);

	if (f && f->owner == owner)
		return f;
	if (f && f->owner)
		lose(f);
	if (place->owner >> 16 == owner >> 16)
		lose(place);
	return NULL;
}

static __always_inline struct flight *flight_of_now(void)
{
	u64 task = bpf_get_current_task(), owner = mine(task);
	struct flight *f = place_of(task);

	return f->owner == owner ? f : flight_elsewhere(f, owner);
}

static __always_inline struct flight *begin(u32 tgid, u64 now)
{
	u64 task = bpf_get_current_task(), owner = mine(task);
	struct flight *f = place_of(task);
	u64 before = f->owner;

	/* A call that is still in flight has lost its end: by a return probe that missed, or
	 * when programs were detached. */
	if (before == owner) {
		count(LOST_FLIGHTS);
	} else if ((before && !((before ^ owner) & 0xffff)) ||
		   __sync_val_compare_and_swap(&f->owner, before, owner) != before) {
		f = bpf_task_storage_get(&flights, bpf_get_current_task_btf(), NULL,
					 BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!f) {
			count(LOST_FLIGHTS);
			return NULL;
		}
		if (f->owner)
			count(LOST_FLIGHTS);
		f->owner = owner;
	} else if (before) {
		count(LOST_FLIGHTS);
	}
	/* What is not cleared is only read after it was set. */
	__builtin_memset(f->spent, 0, sizeof(f->spent));
	f->length = 0;
	f->ib_device = 0;
	f->tgid = tgid;
	f->device = NO_DEVICE;
	f->error = f->cause = 0;
	f->all = 0;
	f->cause_phase = 0;
	if (want_events) {
		f->iova = f->inode = f->buffer_size = 0;
		f->lkey = f->rkey = 0;
		f->exporter[0] = 0;
	}
	f->began = f->mark = now;
	return f;
}

static __always_inline u32 tgid_of_now(void)
{
	struct task_struct *t = bpf_get_current_task_btf();

	return t->tgid;
}

/* The time since the last change goes to the innermost phase. */
static __always_inline void settle(struct flight *f, u64 now)
{
	u8 phase = f->phase;

	if (phase < PHASES)
		f->spent[phase] += now - f->mark;
	f->mark = now;
}

static __always_inline void push(struct flight *f, u8 phase)
{
	settle(f, bpf_ktime_get_ns());
	f->outer[f->depth & (DEPTH - 1)] = f->phase;
	f->phase = phase;
	f->depth++;
}

static __always_inline void pop(struct flight *f)
{
	settle(f, bpf_ktime_get_ns());
	if (!f->depth)
		return; /* its beginning was missed */
	f->depth--;
	f->phase = f->outer[f->depth & (DEPTH - 1)];
}

static __always_inline s32 error_of(u64 cookie, u64 value)
{
	if (cookie & RETURNS_POINTER)
		return value >= (u64)-4095 ? (s32)value : 0;
	if (cookie & RETURNS_LONG)
		return (s64)value < 0 ? (s32)value : 0;
	return (s32)value < 0 ? (s32)value : 0;
}

static __always_inline void blame(struct flight *f, s32 error, u8 phase)
{
	/* Inner functions return first: the first error is the innermost. */
	if (error && !f->cause) {
		f->cause = error;
		f->cause_phase = phase;
	}
}

static __always_inline void on_device(const bool typed, struct flight *f, struct ib_device *d)
{
	if (!d || f->ib_device)
		return;
	f->ib_device = (u64)d;
	f->device = READ(d, index);
}

#endif
