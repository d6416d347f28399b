/* What the programs read of the kernel: only the members used, found at run time
 * by CO-RE from the running kernel's types (fields and headers: Linux 6.1 to 7.3,
 * include/rdma/ib_verbs.h, include/rdma/restrack.h, include/linux/dma-buf.h). */
#ifndef PEERDIRECT_KERNEL_H
#define PEERDIRECT_KERNEL_H

#include <linux/bpf.h>
#ifdef __TARGET_ARCH_arm64
/* As arch/arm64/include/uapi/asm/ptrace.h has it; the objects are built on amd64. */
struct user_pt_regs {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
	__u64 pstate;
};
#else
#include <linux/ptrace.h>
#endif
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

enum rdma_restrack_type {
	RDMA_RESTRACK_PD,
	RDMA_RESTRACK_CQ,
	RDMA_RESTRACK_QP,
	RDMA_RESTRACK_CM_ID,
	RDMA_RESTRACK_MR,
};

struct rdma_restrack_entry {
	enum rdma_restrack_type type;
	u32 id;
};

struct ib_device {
	char name[64];
	u32 index;
};

struct ib_pd {
	struct ib_device *device;
};

enum ib_mr_type {
	IB_MR_TYPE_DM = 2,	/* of a process, on the device */
	IB_MR_TYPE_USER = 3,	/* of a process */
};

struct ib_mr {
	struct ib_device *device;
	u32 lkey;
	u32 rkey;
	u64 iova;
	u64 length;
	enum ib_mr_type type;
	struct rdma_restrack_entry res;
};

struct inode {
	unsigned long i_ino;
};

struct file {
	struct inode *f_inode;
};

struct dma_buf {
	unsigned long size;
	struct file *file;
	const char *exp_name;
};

#pragma clang attribute pop

#endif
