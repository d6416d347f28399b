package verbs

/*
#include "shim.h"

static struct ibv_context *vb_import_device(int fd)
{
	errno = EOPNOTSUPP;
	return vb.ibv_import_device ? vb.ibv_import_device(fd) : NULL;
}

static struct ibv_pd *vb_import_pd(struct ibv_context *c, uint32_t handle)
{
	errno = EOPNOTSUPP;
	return vb.ibv_import_pd ? vb.ibv_import_pd(c, handle) : NULL;
}

static struct ibv_mr *vb_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	errno = EOPNOTSUPP;
	return vb.ibv_import_mr ? vb.ibv_import_mr(pd, handle) : NULL;
}

static struct ibv_dm *vb_import_dm(struct ibv_context *c, uint32_t handle)
{
	errno = EOPNOTSUPP;
	return vb.ibv_import_dm ? vb.ibv_import_dm(c, handle) : NULL;
}

static void vb_unimport_pd(struct ibv_pd *pd) { vb.ibv_unimport_pd(pd); }
static void vb_unimport_mr(struct ibv_mr *mr) { vb.ibv_unimport_mr(mr); }
static void vb_unimport_dm(struct ibv_dm *dm) { vb.ibv_unimport_dm(dm); }

static int vb_cmd_fd(struct ibv_context *c) { return c->cmd_fd; }
static uint32_t vb_dm_handle(struct ibv_dm *dm) { return dm->handle; }
*/
import "C"

import "fmt"

// Objects of one process can be used in another: it is given the device's
// descriptor over a unix socket, and the kernel's handles of the objects. What
// is imported here is let go by Close and destroyed by its maker.

// CommandFD is the device's descriptor in the kernel, for ImportDevice in
// another process, -1 once it is closed. It stays the device's: send a duplicate.
func (d *Device) CommandFD() int {
	if d.ctx == nil {
		return -1
	}
	return int(C.vb_cmd_fd(d.ctx))
}

// KernelHandle names the domain to ImportPD.
func (pd *PD) KernelHandle() uint32 { return uint32(pd.pd.handle) }

// KernelHandle names the region to ImportMR.
func (m *MR) KernelHandle() uint32 { return uint32(m.mr.handle) }

// KernelHandle names the memory to ImportDM.
func (m *DM) KernelHandle() uint32 { return uint32(C.vb_dm_handle(m.dm)) }

const cannotImport = "few drivers can import; see ibv_import_device(3)"

// ImportDevice opens a device by the descriptor of a context that another
// process opened. The library takes the descriptor over.
func ImportDevice(fd int) (*Device, error) {
	if _, err := library(); err != nil {
		return nil, err
	}
	d := &Device{}
	if err := d.attach("ibv_import_device", "device"); err != nil {
		return nil, err
	}
	ctx, errno := C.vb_import_device(C.int(fd))
	if ctx == nil {
		d.detach()
		return nil, failed("ibv_import_device", fmt.Sprintf("descriptor %d", fd), errno, cannotImport)
	}
	d.ctx, d.info = ctx, deviceInfo(ctx.device)
	d.rename("%s", d.info.Name)
	return d, nil
}

// ImportPD gives a protection domain of the process that the device was
// imported from.
func (d *Device) ImportPD(handle uint32) (*PD, error) {
	pd := &PD{dev: d, imported: true}
	if err := pd.attach("ibv_import_pd", "pd", &d.object); err != nil {
		return nil, err
	}
	p, errno := C.vb_import_pd(d.ctx, C.uint32_t(handle))
	if p == nil {
		pd.detach()
		return nil, failed("ibv_import_pd", fmt.Sprintf("%s handle %d", d.info.Name, handle), errno, cannotImport)
	}
	pd.pd = p
	pd.rename("imported %d", handle)
	return pd, nil
}

// ImportMR gives a region of the process that the domain was imported from.
// The region's memory is not mapped here: it serves as a source and target of
// requests by its keys.
func (pd *PD) ImportMR(handle uint32) (*MR, error) {
	m := &MR{pd: pd, imported: true}
	if err := m.attach("ibv_import_mr", "mr", &pd.object); err != nil {
		return nil, err
	}
	p, errno := C.vb_import_mr(pd.pd, C.uint32_t(handle))
	if p == nil {
		m.detach()
		return nil, failed("ibv_import_mr", fmt.Sprintf("%s handle %d", pd.describe(), handle), errno, cannotImport)
	}
	m.mr, m.length = p, uint64(p.length)
	m.keys()
	return m, nil
}

// ImportDM gives device memory of the process that the device was imported
// from.
func (d *Device) ImportDM(handle uint32, length uint64) (*DM, error) {
	m := &DM{dev: d, length: length, imported: true}
	if err := m.attach("ibv_import_dm", "dm", &d.object); err != nil {
		return nil, err
	}
	p, errno := C.vb_import_dm(d.ctx, C.uint32_t(handle))
	if p == nil {
		m.detach()
		return nil, failed("ibv_import_dm", fmt.Sprintf("%s handle %d", d.info.Name, handle), errno, cannotImport)
	}
	m.dm = p
	m.rename("imported %d", handle)
	return m, nil
}

func unimportPD(pd *C.struct_ibv_pd) { C.vb_unimport_pd(pd) }
func unimportMR(mr *C.struct_ibv_mr) { C.vb_unimport_mr(mr) }
func unimportDM(dm *C.struct_ibv_dm) { C.vb_unimport_dm(dm) }
