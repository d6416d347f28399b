/* SPDX-License-Identifier: GPL-2.0 */
#ifndef ACCEL_H
#define ACCEL_H

#include <linux/genalloc.h>
#include <linux/idr.h>
#include <linux/kref.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/pci.h>

#define ACCEL_BAR 2

/* One function. Open files and memory hold it, so it outlives its driver. */
struct accel {
	struct kref ref;
	struct miscdevice misc;
	struct pci_dev *pdev;
	struct gen_pool *pool;	/* of offsets + ACCEL_BASE */
	phys_addr_t phys;
	u64 size;
	int id;
	bool removed;
	char name[32];
};

/* genalloc gives 0 where it has no room, so no allocation may begin there. */
#define ACCEL_BASE BIT_ULL(40)

/* An allocation: its handle, its mappings and its dma-bufs hold it. */
struct accel_mem {
	struct kref ref;
	struct accel *accel;
	u64 offset;	/* in the BAR */
	u64 size;
};

struct accel_file {
	struct accel *accel;
	struct mutex lock;	/* of handles */
	struct idr handles;
};

void accel_mem_put(struct accel_mem *m);

/* Maps from offset in the BAR on, which the caller knows to be the memory's. */
int accel_map(struct accel_mem *m, u64 offset, struct vm_area_struct *vma);

/*
 * Makes a dma-buf of pages of an allocation, whose hold goes over to it unless
 * this fails. offset is in the BAR.
 */
struct dma_buf *accel_buf(struct accel_mem *m, u64 offset, u64 length);

#endif
