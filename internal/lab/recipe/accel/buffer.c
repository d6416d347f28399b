// SPDX-License-Identifier: GPL-2.0
/* An allocation as processes and importers have it: mappings and dma-bufs. */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/pci-p2pdma.h>
#include <linux/slab.h>
#include <linux/version.h>

#include "accel.h"

/* A dma-buf's private data. */
struct accel_buf {
	struct accel_mem *mem;
	u64 offset;	/* in the BAR */
};

static void accel_vm_open(struct vm_area_struct *vma)
{
	kref_get(&((struct accel_mem *)vma->vm_private_data)->ref);
}

static void accel_vm_close(struct vm_area_struct *vma)
{
	accel_mem_put(vma->vm_private_data);
}

static const struct vm_operations_struct accel_vm_ops = {
	.open = accel_vm_open,
	.close = accel_vm_close,
};

int accel_map(struct accel_mem *m, u64 offset, struct vm_area_struct *vma)
{
	int err;

	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	err = io_remap_pfn_range(vma, vma->vm_start, (m->accel->phys + offset) >> PAGE_SHIFT,
				 vma->vm_end - vma->vm_start, vma->vm_page_prot);
	if (err)
		return err;
	vma->vm_private_data = m;
	vma->vm_ops = &accel_vm_ops;
	accel_vm_open(vma);
	return 0;
}

static int accel_attach(struct dma_buf *buf, struct dma_buf_attachment *at)
{
	struct accel_buf *b = buf->priv;

	if (!at->peer2peer)
		return -EOPNOTSUPP;
	if (IS_ENABLED(CONFIG_PCI_P2PDMA) &&
	    pci_p2pdma_distance(b->mem->accel->pdev, at->dev, true) < 0)
		return -EREMOTEIO;
	return 0;
}

static struct sg_table *accel_map_dma(struct dma_buf_attachment *at, enum dma_data_direction dir)
{
	struct accel_buf *b = at->dmabuf->priv;
	size_t size = at->dmabuf->size;
	struct sg_table *t;
	dma_addr_t addr;
	int err;

	t = kzalloc(sizeof(*t), GFP_KERNEL);
	if (!t)
		return ERR_PTR(-ENOMEM);
	err = sg_alloc_table(t, 1, GFP_KERNEL);
	if (err)
		goto free;
	addr = dma_map_resource(at->dev, b->mem->accel->phys + b->offset, size, dir, DMA_ATTR_SKIP_CPU_SYNC);
	err = dma_mapping_error(at->dev, addr);
	if (err)
		goto free_table;
	sg_set_page(t->sgl, NULL, size, 0);
	sg_dma_address(t->sgl) = addr;
	sg_dma_len(t->sgl) = size;
	return t;
free_table:
	sg_free_table(t);
free:
	kfree(t);
	return ERR_PTR(err);
}

static void accel_unmap_dma(struct dma_buf_attachment *at, struct sg_table *t, enum dma_data_direction dir)
{
	dma_unmap_resource(at->dev, sg_dma_address(t->sgl), sg_dma_len(t->sgl), dir, DMA_ATTR_SKIP_CPU_SYNC);
	sg_free_table(t);
	kfree(t);
}

/* The memory is not cached; only what the processor has combined is not there. */
static int accel_cpu_access(struct dma_buf *buf, enum dma_data_direction dir)
{
	mb();
	return 0;
}

static int accel_buf_mmap(struct dma_buf *buf, struct vm_area_struct *vma)
{
	struct accel_buf *b = buf->priv;	/* the caller has checked the range */

	return accel_map(b->mem, b->offset + ((u64)vma->vm_pgoff << PAGE_SHIFT), vma);
}

static void accel_buf_release(struct dma_buf *buf)
{
	struct accel_buf *b = buf->priv;

	accel_mem_put(b->mem);
	kfree(b);
}

static const struct dma_buf_ops accel_buf_ops = {
	.attach = accel_attach,
	.map_dma_buf = accel_map_dma,
	.unmap_dma_buf = accel_unmap_dma,
	.begin_cpu_access = accel_cpu_access,
	.end_cpu_access = accel_cpu_access,
	.mmap = accel_buf_mmap,
	.release = accel_buf_release,
};

struct dma_buf *accel_buf(struct accel_mem *m, u64 offset, u64 length)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct accel_buf *b = kzalloc(sizeof(*b), GFP_KERNEL);
	struct dma_buf *buf;

	if (!b)
		return ERR_PTR(-ENOMEM);
	b->mem = m;
	b->offset = offset;
	info.ops = &accel_buf_ops;
	info.size = length;
	info.flags = O_RDWR;
	info.priv = b;
	buf = dma_buf_export(&info);
	if (IS_ERR(buf))
		kfree(b);
	return buf;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
MODULE_IMPORT_NS("DMA_BUF");
#else
MODULE_IMPORT_NS(DMA_BUF);
#endif
