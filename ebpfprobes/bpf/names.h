/* Names of what the tables have by number: devices and processes. */
#ifndef PEERDIRECT_NAMES_H
#define PEERDIRECT_NAMES_H

#include "common.h"

#define NO_DEVICE 0xffffffff
#define NAME 64

struct name {
	u8 text[NAME];
} __attribute__((aligned(8)));

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, u32); /* ib_device.index */
	__type(value, struct name);
} devices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32); /* tgid */
	__type(value, struct name);
} processes SEC(".maps");

/* A device is renamed (rdma dev set), and its index is used again. */
static __always_inline void note_device(u32 index, struct ib_device *d)
{
	struct name now = {}, *known = bpf_map_lookup_elem(&devices, &index);
	u64 other = 1;

	bpf_core_read_str(now.text, NAME, &d->name);
	if (known) {
		other = 0;
		for (u32 i = 0; i < NAME / sizeof(u64); i++)
			other |= ((u64 *)known)[i] ^ ((u64 *)&now)[i];
	}
	if (other && bpf_map_update_elem(&devices, &index, &now, BPF_ANY))
		count(LOST_NAMES);
}

/* The thread of now tells its process's name, which stays as it was first seen. */
static __always_inline void note_process(u32 tgid)
{
	struct name n = {};

	bpf_get_current_comm(n.text, 16);
	keep_name(&processes, &tgid, &n);
}

#endif
