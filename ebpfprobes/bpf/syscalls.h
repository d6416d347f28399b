/* Tables of the programs that follow system calls alone. */
#ifndef PEERDIRECT_SYSCALLS_H
#define PEERDIRECT_SYSCALLS_H

#include "names.h"
#include "generation.h"
#include "uapi.h"

enum operation { REGISTER, REREGISTER, DEREGISTER };
enum kind { UNKNOWN, HOST, ON_DEMAND, DMA_BUF, DEVX };

/* A thread's call that has not returned. */
struct flight {
	u64 began, length, iova;
	u64 handle_at, lkey_at, rkey_at; /* where the answer will be, in the process */
	u64 context;
	u32 fd, handle, lkey, rkey;
	s32 buffer;	/* descriptor of a dma-buf */
	u32 generation;
	u8 operation, kind;
	u8 counts;	/* it registers or ends a region; 0: it only shows what fd is */
	u8 opens;	/* the descriptor's context begins */
	u8 ioctl;
	u8 same;	/* registers again in the same memory */
	u8 taken;	/* its region is out of the table */
	u8 pad;
};

/* Not preallocated, nor LRU: what does not fit has to be known. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64); /* tgid and tid */
	__type(value, struct flight);
} flights SEC(".maps");

/* Where a call's flight is put together. Out of the verifier's sight: what is set and what
 * is not would double the ways that it has to look at. */
struct scratch {
	struct flight flight;
	struct attribute attributes[ATTRIBUTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

/* An open descriptor, as far as the kernel can be asked: what device it is, Go looks up
 * in /proc. A new context of the same number has another id. */
struct descriptor {
	u32 tgid, fd;
};

struct context {
	u64 id;
	u64 live;	/* regions in the table */
	u8 sure;	/* an ioctl of RDMA succeeded on it: it is an uverbs device */
	u8 pad[7];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct descriptor);
	__type(value, struct context);
} contexts SEC(".maps");

/* Sent when a descriptor is first seen, so that Go looks while it is there. */
struct sighting {
	u64 id;
	struct descriptor descriptor;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} sightings SEC(".maps");

/* Live regions: what is ended is told by its handle alone. */
struct region_key {
	u64 context;
	u32 handle, pad;
};

struct region {
	u64 length, iova;
	u32 lkey, rkey;
	u8 kind, pad[7];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 18);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct region_key);
	__type(value, struct region);
} regions SEC(".maps");

struct cell_key {
	u64 context;
	u32 tgid;
	u8 operation, kind, size;	/* size: n for lengths of 2^n to 2^(n+1)-1 */
	u8 sure;
};

struct cell {
	u64 count, failed, bytes, sum, longest;
	u64 slots[SLOTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2048);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct cell_key);
	__type(value, struct cell);
} cells SEC(".maps");

static const struct cell empty = {};

struct failure_key {
	u64 context;
	u32 tgid;
	s32 error;
	u8 operation, kind, sure, pad[5];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2048);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct failure_key);
	__type(value, u64);
} failures SEC(".maps");

struct event {
	u64 at, took, length, iova, context;
	u32 tgid, tid, fd, lkey, rkey;
	s32 error, buffer;
	u8 operation, kind, sure, pad;
	u8 comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

/* Keep these types in the object, for Go. */
const struct event *unused_event __attribute__((unused));
const struct sighting *unused_sighting __attribute__((unused));

#endif
