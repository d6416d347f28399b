package verbs

/*
#include "shim.h"

static struct ibv_dm *vb_alloc_dm(struct ibv_context *c, size_t len, uint32_t log_align)
{
	struct ibv_alloc_dm_attr a = {.length = len, .log_align_req = log_align};
	struct verbs_context *v = VB_OP(c, alloc_dm);

	if (!v)
		return NULL;
	errno = 0;
	return v->alloc_dm(c, &a);
}

static int vb_free_dm(struct ibv_dm *dm)
{
	struct verbs_context *v = VB_OP(dm->context, free_dm);

	return v ? vb_rc(v->free_dm(dm)) : EOPNOTSUPP;
}

static int vb_to_dm(struct ibv_dm *dm, uint64_t off, void *from, size_t len)
{
	errno = 0;
	return vb_rc(dm->memcpy_to_dm(dm, off, from, len));
}

static int vb_from_dm(void *to, struct ibv_dm *dm, uint64_t off, size_t len)
{
	errno = 0;
	return vb_rc(dm->memcpy_from_dm(to, dm, off, len));
}

static struct ibv_mr *vb_reg_dm(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t off, size_t len, unsigned access)
{
	struct verbs_context *v = VB_OP(pd->context, reg_dm_mr);

	if (!v)
		return NULL;
	errno = 0;
	return v->reg_dm_mr(pd, dm, off, len, access);
}

static int vb_export_dm(struct ibv_dm *dm)
{
	errno = EOPNOTSUPP;
	return vb_newer.ibv_dm_export_dmabuf_fd ? vb_newer.ibv_dm_export_dmabuf_fd(dm) : -1;
}

static uint32_t vb_dm_number(struct ibv_dm *dm) { return dm->handle; }
*/
import "C"

import (
	"fmt"
	"os"
	"unsafe"
)

// DM is memory on the device itself.
type DM struct {
	object
	dev      *Device
	dm       *C.struct_ibv_dm
	length   uint64
	imported bool
}

// AllocDM allocates length bytes of device memory, aligned to 2^logAlign.
func (d *Device) AllocDM(length uint64, logAlign uint32) (*DM, error) {
	m := &DM{dev: d, length: length}
	if err := m.attach("ibv_alloc_dm", "dm", &d.object); err != nil {
		return nil, err
	}
	p, errno := C.vb_alloc_dm(d.ctx, C.size_t(length), C.uint32_t(logAlign))
	if p == nil {
		m.detach()
		detail := ""
		if a, err := d.Attr(); err == nil {
			detail = fmt.Sprintf("the device has %d bytes of it", a.MaxDMSize)
		}
		return nil, failed("ibv_alloc_dm", fmt.Sprintf("%s, %d bytes, alignment 2^%d", d.info.Name, length, logAlign), errno, detail)
	}
	m.dm = p
	m.rename("%d", uint32(C.vb_dm_number(p)))
	return m, nil
}

// Length is the size in bytes.
func (m *DM) Length() uint64 { return m.length }

func (m *DM) check(verb string, offset uint64, n int) error {
	switch {
	case m.dm == nil:
		return &Error{Verb: verb, Object: m.describe(), Err: ErrClosed}
	case offset > m.length || uint64(n) > m.length-offset:
		return &Error{Verb: verb, Object: m.describe(), Err: ErrRange, Detail: fmt.Sprintf("it has %d bytes", m.length)}
	}
	return nil
}

// WriteAt copies into device memory. Drivers may ask for offsets and lengths
// that are multiples of 4.
func (m *DM) WriteAt(p []byte, offset int64) (int, error) {
	if err := m.check("ibv_memcpy_to_dm", uint64(offset), len(p)); err != nil || len(p) == 0 {
		return 0, err
	}
	rc := C.vb_to_dm(m.dm, C.uint64_t(offset), unsafe.Pointer(unsafe.SliceData(p)), C.size_t(len(p)))
	if err := code("ibv_memcpy_to_dm", m.describe(), int(rc), ""); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ReadAt copies out of device memory.
func (m *DM) ReadAt(p []byte, offset int64) (int, error) {
	if err := m.check("ibv_memcpy_from_dm", uint64(offset), len(p)); err != nil || len(p) == 0 {
		return 0, err
	}
	rc := C.vb_from_dm(unsafe.Pointer(unsafe.SliceData(p)), m.dm, C.uint64_t(offset), C.size_t(len(p)))
	if err := code("ibv_memcpy_from_dm", m.describe(), int(rc), ""); err != nil {
		return 0, err
	}
	return len(p), nil
}

// RegisterDM registers a range of device memory. Work requests address it from
// 0 on, as ZeroBased asks, which drivers require.
func (pd *PD) RegisterDM(m *DM, offset, length uint64, access Access) (*MR, error) {
	if err := m.check("ibv_reg_dm_mr", offset, int(length)); err != nil {
		return nil, err
	}
	access |= ZeroBased
	return pd.register("ibv_reg_dm_mr", length, 0, access, func() (*C.struct_ibv_mr, error) {
		p, err := C.vb_reg_dm(pd.pd, m.dm, C.uint64_t(offset), C.size_t(length), C.uint(access))
		return p, err
	}, &m.object)
}

// ExportDMABuf gives a dma-buf of the memory, to be closed by the caller. It
// takes symbol version 1.16 of the library.
func (m *DM) ExportDMABuf() (*os.File, error) {
	if err := m.check("ibv_dm_export_dmabuf_fd", 0, 0); err != nil {
		return nil, err
	}
	if !HasFunction("ibv_dm_export_dmabuf_fd") {
		return nil, unsupported("ibv_dm_export_dmabuf_fd", m.describe())
	}
	fd, errno := C.vb_export_dm(m.dm)
	if fd < 0 {
		return nil, failed("ibv_dm_export_dmabuf_fd", m.describe(), errno, "")
	}
	return os.NewFile(uintptr(fd), m.describe()), nil
}

// Handle is the struct ibv_dm, nil once the memory is closed.
func (m *DM) Handle() unsafe.Pointer { return unsafe.Pointer(m.dm) }

func (m *DM) describe() string { return m.dev.info.Name + " " + m.name() }

// Close frees the memory. It is ErrBusy while regions stand on it.
func (m *DM) Close() error {
	return m.close("ibv_free_dm", func() error {
		if m.imported {
			unimportDM(m.dm)
		} else if err := code("ibv_free_dm", m.describe(), int(C.vb_free_dm(m.dm)), ""); err != nil {
			return err
		}
		m.dm = nil
		return nil
	})
}
