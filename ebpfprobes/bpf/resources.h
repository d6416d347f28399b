/* What the kernel's resource tracking knows of RDMA objects: types and names that
 * lifecycle, connections and errors share (Linux 6.1 to 7.3: include/rdma/ib_verbs.h,
 * include/rdma/restrack.h, include/linux/dcache.h). */
#ifndef PEERDIRECT_RESOURCES_H
#define PEERDIRECT_RESOURCES_H

#include "common.h"
#include "process.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* A second view of rdma_restrack_entry. */
struct rdma_restrack_entry___owner {
	struct task_struct *task;
	const char *kern_name;
	bool user;
};

struct ib_pd___res {
	struct ib_device *device;
	struct rdma_restrack_entry res;
};

struct ib_cq {
	struct ib_device *device;
	int cqe;
	struct rdma_restrack_entry res;
};

enum ib_qp_type { IB_QPT_SMI }; /* its kind has to agree, not its values */

struct ib_qp {
	struct ib_device *device;
	u32 qp_num;
	enum ib_qp_type qp_type;
	struct rdma_restrack_entry res;
};

struct dentry {
	void *d_fsdata;
};

#pragma clang attribute pop

#define NO_DEVICE 0xffffffff
#define NAME 64

struct name {
	u8 text[NAME];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, u32); /* ib_device.index */
	__type(value, struct name);
} devices SEC(".maps");

/* The index of a device, whose name is noted. */
static __always_inline u32 device_of(struct ib_device *d)
{
	if (!d)
		return NO_DEVICE;
	u32 index = BPF_CORE_READ(d, index);

	if (!bpf_map_lookup_elem(&devices, &index)) {
		struct name n = {};

		bpf_core_read_str(n.text, NAME, &d->name);
		if (bpf_map_update_elem(&devices, &index, &n, BPF_ANY))
			count(LOST_NAMES);
	}
	return index;
}

static __always_inline bool is_type(u32 type, enum rdma_restrack_type of)
{
	switch (of) {
	case RDMA_RESTRACK_PD:
		return type == bpf_core_enum_value(enum rdma_restrack_type, RDMA_RESTRACK_PD);
	case RDMA_RESTRACK_CQ:
		return type == bpf_core_enum_value(enum rdma_restrack_type, RDMA_RESTRACK_CQ);
	case RDMA_RESTRACK_QP:
		return type == bpf_core_enum_value(enum rdma_restrack_type, RDMA_RESTRACK_QP);
	case RDMA_RESTRACK_MR:
		return type == bpf_core_enum_value(enum rdma_restrack_type, RDMA_RESTRACK_MR);
	default:
		return false;
	}
}

#endif
