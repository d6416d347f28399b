/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The requests of /dev/peerdirect_accelN, the device memory of one function.
 * Package dmabuf has the same structures in Go (accel.go).
 *
 * Memory belongs to the open file that allocated it, by a handle of that file.
 * Freeing it, or closing the file, ends the handle; the bytes are given to
 * nobody else before the last mapping and the last dma-buf of them are gone.
 */
#ifndef PEERDIRECT_ACCEL_H
#define PEERDIRECT_ACCEL_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define PEERDIRECT_ACCEL_ABI 1

/* The kernel is asked whether two functions reach each other. */
#define PEERDIRECT_ACCEL_CHECKS_PATH 1

struct peerdirect_accel_info {
	__u32 abi;	/* PEERDIRECT_ACCEL_ABI */
	__u32 flags;	/* PEERDIRECT_ACCEL_CHECKS_PATH */
	__u64 size;	/* of the device's memory, in bytes */
	__u64 free;	/* of these not allocated */
	__u64 bus;	/* where the memory is on the bus */
	char pci[16];	/* the function, "0000:00:05.0" */
};

struct peerdirect_accel_alloc {
	__u64 size;	/* in: bytes; out: rounded up to pages */
	__u64 offset;	/* out: of the first byte in the device; mmap takes it */
	__u32 handle;	/* out: from 1 */
	__u32 flags;	/* 0 */
};

struct peerdirect_accel_export {
	__u32 handle;
	__u32 flags;	/* of the descriptor: O_CLOEXEC */
	__u64 offset;	/* into the allocation, of pages */
	__u64 length;	/* of pages; 0 is all that follows */
	__s32 fd;	/* out: a dma-buf of exactly these bytes */
	__u32 pad;	/* 0 */
};

struct peerdirect_accel_free {
	__u32 handle;
	__u32 pad;	/* 0 */
};

#define PEERDIRECT_ACCEL_INFO	_IOR('P', 0xa0, struct peerdirect_accel_info)
#define PEERDIRECT_ACCEL_ALLOC	_IOWR('P', 0xa1, struct peerdirect_accel_alloc)
#define PEERDIRECT_ACCEL_EXPORT	_IOWR('P', 0xa2, struct peerdirect_accel_export)
#define PEERDIRECT_ACCEL_FREE	_IOW('P', 0xa3, struct peerdirect_accel_free)

#endif
