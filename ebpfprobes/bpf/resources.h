/* What the kernel's resource tracking knows of RDMA objects: types and names that
 * lifecycle, connections and errors share (Linux 6.1 to 7.3: include/rdma/ib_verbs.h,
 * include/rdma/restrack.h, include/linux/dcache.h). */
#ifndef PEERDIRECT_RESOURCES_H
#define PEERDIRECT_RESOURCES_H

#include "names.h"
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

/* The index of a device, whose name is noted. */
static __always_inline u32 device_of(struct ib_device *d)
{
	if (!d)
		return NO_DEVICE;
	u32 index = BPF_CORE_READ(d, index);

	note_device(index, d);
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
