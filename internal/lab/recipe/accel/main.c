// SPDX-License-Identifier: GPL-2.0
/*
 * An accelerator's memory as its driver would give it, for machines that have
 * none: BAR 2 of QEMU's ivshmem-plain (1af4:1110), handed out in pages, mapped
 * into processes, and exported as dma-bufs that only peer-to-peer importers
 * get. No struct page lies behind it, so nothing can copy it through the host's
 * memory unnoticed.
 *
 * An importer that does not take peer-to-peer memory is refused with
 * EOPNOTSUPP. One that the kernel does not let reach this function on the bus is
 * refused with EREMOTEIO, the error that the DMA API has for it; the kernel's
 * log says why. A kernel without CONFIG_PCI_P2PDMA cannot tell, and every
 * peer-to-peer importer is served, as drivers did before it could.
 */
#include <linux/dma-buf.h>
#include <linux/file.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "accel.h"
#include "peerdirect_accel.h"

static DEFINE_IDA(accel_ids);

static void accel_gone(struct kref *ref)
{
	struct accel *a = container_of(ref, struct accel, ref);

	gen_pool_destroy(a->pool);
	pci_dev_put(a->pdev);
	ida_free(&accel_ids, a->id);
	kfree(a);
}

static void accel_mem_gone(struct kref *ref)
{
	struct accel_mem *m = container_of(ref, struct accel_mem, ref);

	gen_pool_free(m->accel->pool, ACCEL_BASE + m->offset, m->size);
	kref_put(&m->accel->ref, accel_gone);
	kfree(m);
}

void accel_mem_put(struct accel_mem *m)
{
	kref_put(&m->ref, accel_mem_gone);
}

/* The requests. */

static int accel_info(struct accel_file *f, void __user *user)
{
	struct accel *a = f->accel;
	struct peerdirect_accel_info info = {
		.abi = PEERDIRECT_ACCEL_ABI,
		.flags = IS_ENABLED(CONFIG_PCI_P2PDMA) ? PEERDIRECT_ACCEL_CHECKS_PATH : 0,
		.size = a->size,
		.free = gen_pool_avail(a->pool),
		.bus = pci_bus_address(a->pdev, ACCEL_BAR),
	};

	strscpy(info.pci, pci_name(a->pdev), sizeof(info.pci));
	return copy_to_user(user, &info, sizeof(info)) ? -EFAULT : 0;
}

static int accel_alloc(struct accel_file *f, void __user *user)
{
	struct peerdirect_accel_alloc req;
	struct accel_mem *m;
	unsigned long at;
	int handle;

	if (copy_from_user(&req, user, sizeof(req)))
		return -EFAULT;
	if (req.flags || !req.size)
		return -EINVAL;
	if (req.size > f->accel->size)
		return -ENOSPC;
	req.size = PAGE_ALIGN(req.size);
	m = kzalloc(sizeof(*m), GFP_KERNEL);
	if (!m)
		return -ENOMEM;
	at = gen_pool_alloc(f->accel->pool, req.size);
	if (!at) {
		kfree(m);
		return -ENOSPC;
	}
	kref_init(&m->ref);
	kref_get(&f->accel->ref);
	m->accel = f->accel;
	m->offset = at - ACCEL_BASE;
	m->size = req.size;
	req.offset = m->offset;
	mutex_lock(&f->lock);
	handle = idr_alloc(&f->handles, NULL, 1, 0, GFP_KERNEL);	/* nobody finds it yet */
	req.handle = handle;
	if (handle >= 0 && copy_to_user(user, &req, sizeof(req))) {
		idr_remove(&f->handles, handle);
		handle = -EFAULT;
	}
	if (handle >= 0)
		idr_replace(&f->handles, m, handle);
	mutex_unlock(&f->lock);
	if (handle < 0) {
		accel_mem_put(m);
		return handle;
	}
	return 0;
}

static int accel_free(struct accel_file *f, void __user *user)
{
	struct peerdirect_accel_free req;
	struct accel_mem *m;

	if (copy_from_user(&req, user, sizeof(req)))
		return -EFAULT;
	if (req.pad)
		return -EINVAL;
	mutex_lock(&f->lock);
	m = idr_remove(&f->handles, req.handle);
	mutex_unlock(&f->lock);
	if (!m)
		return -ENOENT;
	accel_mem_put(m);
	return 0;
}

static int accel_export(struct accel_file *f, void __user *user)
{
	struct peerdirect_accel_export req;
	struct dma_buf *buf;
	struct accel_mem *m;
	int err = -EINVAL;

	if (copy_from_user(&req, user, sizeof(req)))
		return -EFAULT;
	if (req.pad || req.flags & ~O_CLOEXEC || !PAGE_ALIGNED(req.offset) || !PAGE_ALIGNED(req.length))
		return -EINVAL;
	mutex_lock(&f->lock);
	m = idr_find(&f->handles, req.handle);
	if (m)
		kref_get(&m->ref);
	mutex_unlock(&f->lock);
	if (!m)
		return -ENOENT;
	if (req.offset >= m->size || req.length > m->size - req.offset)
		goto put;
	buf = accel_buf(m, m->offset + req.offset, req.length ?: m->size - req.offset);
	err = PTR_ERR_OR_ZERO(buf);
	if (err)
		goto put;
	/* From here on the dma-buf holds m. Its number is told before it works. */
	req.fd = get_unused_fd_flags(req.flags);
	err = req.fd < 0 ? req.fd : 0;
	if (!err && copy_to_user(user, &req, sizeof(req))) {
		put_unused_fd(req.fd);
		err = -EFAULT;
	}
	if (err)
		dma_buf_put(buf);
	else
		fd_install(req.fd, buf->file);
	return err;
put:
	accel_mem_put(m);
	return err;
}

static long accel_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct accel_file *f = file->private_data;
	void __user *user = (void __user *)arg;

	if (READ_ONCE(f->accel->removed) && cmd != PEERDIRECT_ACCEL_FREE)
		return -ENODEV;
	switch (cmd) {
	case PEERDIRECT_ACCEL_INFO:
		return accel_info(f, user);
	case PEERDIRECT_ACCEL_ALLOC:
		return accel_alloc(f, user);
	case PEERDIRECT_ACCEL_EXPORT:
		return accel_export(f, user);
	case PEERDIRECT_ACCEL_FREE:
		return accel_free(f, user);
	}
	return -ENOTTY;
}

/* Maps memory of this file's, at its offset in the device. */
static int accel_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct accel_file *f = file->private_data;
	u64 from = (u64)vma->vm_pgoff << PAGE_SHIFT, size = vma->vm_end - vma->vm_start;
	int handle, err = -ENXIO;
	struct accel_mem *m;

	mutex_lock(&f->lock);
	idr_for_each_entry(&f->handles, m, handle) {
		if (from >= m->offset && from - m->offset < m->size &&
		    size <= m->size - (from - m->offset)) {
			err = accel_map(m, from, vma);
			break;
		}
	}
	mutex_unlock(&f->lock);
	return err;
}

static int accel_open(struct inode *inode, struct file *file)
{
	struct accel *a = container_of(file->private_data, struct accel, misc);
	struct accel_file *f = kzalloc(sizeof(*f), GFP_KERNEL);

	if (!f)
		return -ENOMEM;
	kref_get(&a->ref);	/* misc_deregister waits for this call */
	f->accel = a;
	mutex_init(&f->lock);
	idr_init(&f->handles);
	file->private_data = f;
	return 0;
}

static int accel_release(struct inode *inode, struct file *file)
{
	struct accel_file *f = file->private_data;
	struct accel_mem *m;
	int handle;

	idr_for_each_entry(&f->handles, m, handle)
		accel_mem_put(m);
	idr_destroy(&f->handles);
	kref_put(&f->accel->ref, accel_gone);
	kfree(f);
	return 0;
}

static const struct file_operations accel_fops = {
	.owner = THIS_MODULE,
	.open = accel_open,
	.release = accel_release,
	.unlocked_ioctl = accel_ioctl,
	.mmap = accel_mmap,
};

static int accel_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct accel *a;
	int err;

	err = pcim_enable_device(pdev);
	if (err)
		return err;
	pci_set_master(pdev);
	a = kzalloc(sizeof(*a), GFP_KERNEL);
	if (!a)
		return -ENOMEM;
	kref_init(&a->ref);
	a->pdev = pci_dev_get(pdev);
	a->phys = pci_resource_start(pdev, ACCEL_BAR);
	a->size = pci_resource_len(pdev, ACCEL_BAR);
	a->id = ida_alloc(&accel_ids, GFP_KERNEL);
	a->pool = gen_pool_create(PAGE_SHIFT, dev_to_node(&pdev->dev));
	err = -ENOMEM;
	if (a->id < 0 || !a->pool)
		goto free;
	err = a->size ? gen_pool_add(a->pool, ACCEL_BASE, a->size, dev_to_node(&pdev->dev)) : -ENODEV;
	if (err)
		goto free;
	snprintf(a->name, sizeof(a->name), "peerdirect_accel%d", a->id);
	a->misc.minor = MISC_DYNAMIC_MINOR;
	a->misc.name = a->name;
	a->misc.fops = &accel_fops;
	a->misc.parent = &pdev->dev;
	err = misc_register(&a->misc);
	if (err)
		goto free;
	pci_set_drvdata(pdev, a);
	return 0;
free:
	if (a->pool)
		gen_pool_destroy(a->pool);
	if (a->id >= 0)
		ida_free(&accel_ids, a->id);
	pci_dev_put(pdev);
	kfree(a);
	return err;
}

/* What is allocated stays until its users have gone; nothing more is. */
static void accel_remove(struct pci_dev *pdev)
{
	struct accel *a = pci_get_drvdata(pdev);

	misc_deregister(&a->misc);
	WRITE_ONCE(a->removed, true);
	kref_put(&a->ref, accel_gone);
}

static const struct pci_device_id accel_functions[] = {
	{ PCI_DEVICE(0x1af4, 0x1110) },
	{ }
};
MODULE_DEVICE_TABLE(pci, accel_functions);

static struct pci_driver accel_driver = {
	.name = "peerdirect_accel",
	.id_table = accel_functions,
	.probe = accel_probe,
	.remove = accel_remove,
};
module_pci_driver(accel_driver);

MODULE_DESCRIPTION("Memory of the lab's accelerators, exported as peer-to-peer dma-bufs");
MODULE_LICENSE("GPL");
