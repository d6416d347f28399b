package verbs

/*
#include "shim.h"

static struct vb_dmah *vb_alloc_dmah(struct ibv_context *c, uint32_t mask, uint32_t cpu, uint8_t ph, uint8_t mem)
{
	struct vb_dmah_attr a = {.comp_mask = mask, .cpu_id = cpu, .ph = ph, .tph_mem_type = mem};

	errno = EOPNOTSUPP;
	return vb_newer.ibv_alloc_dmah ? vb_newer.ibv_alloc_dmah(c, &a) : NULL;
}

static int vb_dealloc_dmah(struct vb_dmah *h) { errno = 0; return vb_rc(vb_newer.ibv_dealloc_dmah(h)); }

static struct ibv_mr *vb_reg_ex(struct ibv_pd *pd, struct vb_mr_attr *a)
{
	errno = EOPNOTSUPP;
	return vb_newer.ibv_reg_mr_ex ? vb_newer.ibv_reg_mr_ex(pd, a) : NULL;
}

static void *vb_alloc_buf(struct ibv_pd *pd, size_t size, struct vb_buf **buf)
{
	errno = EOPNOTSUPP;
	return vb_newer.ibv_alloc_buf ? vb_newer.ibv_alloc_buf(pd, size, buf) : NULL;
}

static void vb_free_buf(struct vb_buf *b) { vb_newer.ibv_free_buf(b); }

static struct ibv_mr *vb_reg_buf(struct ibv_pd *pd, struct vb_buf *b, void *addr, size_t len, int access)
{
	errno = 0;
	return vb_newer.ibv_reg_buf_mr(pd, b, addr, len, access);
}

static int vb_export_buf(struct vb_buf *b)
{
	errno = EOPNOTSUPP;
	return vb_newer.ibv_export_buf_dmabuf_fd ? vb_newer.ibv_export_buf_dmabuf_fd(b) : -1;
}
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"github.com/peerdirect/peerdirect/internal/umem"
)

// DMAHandle steers the device's writes towards a processor's cache
// (ibv_alloc_dmah, symbol version 1.15 of the library).
type DMAHandle struct {
	object
	dev *Device
	h   *C.struct_vb_dmah
}

// DMAHandleOptions are steering hints; nil and zero leave them out.
type DMAHandleOptions struct {
	CPU  *uint32 // processor whose cache is meant
	Hint *uint8  // PCI Express processing hint
	PMem bool    // the target is persistent memory
	VMem bool    // the target is volatile memory
}

// AllocDMAHandle makes a DMA handle.
func (d *Device) AllocDMAHandle(o DMAHandleOptions) (*DMAHandle, error) {
	if _, err := library(); err == nil && !HasFunction("ibv_alloc_dmah") {
		return nil, unsupported("ibv_alloc_dmah", d.info.Name)
	}
	var (
		mask, cpu C.uint32_t
		hint, mem C.uint8_t
	)
	if o.CPU != nil {
		mask, cpu = mask|1, C.uint32_t(*o.CPU)
	}
	if o.Hint != nil {
		mask, hint = mask|2, C.uint8_t(*o.Hint)
	}
	if o.PMem || o.VMem {
		mask |= 4
		if o.PMem {
			mem = 1
		}
	}
	h := &DMAHandle{dev: d}
	if err := h.attach("ibv_alloc_dmah", "dmah", &d.object); err != nil {
		return nil, err
	}
	p, errno := C.vb_alloc_dmah(d.ctx, mask, cpu, hint, mem)
	if p == nil {
		h.detach()
		return nil, failed("ibv_alloc_dmah", d.info.Name, errno, "")
	}
	h.h = p
	h.rename("%p", p)
	return h, nil
}

// Close frees the handle. It is ErrBusy while regions use it.
func (h *DMAHandle) Close() error {
	return h.close("ibv_dealloc_dmah", func() error {
		if err := code("ibv_dealloc_dmah", h.dev.info.Name+" "+h.name(), int(C.vb_dealloc_dmah(h.h)), ""); err != nil {
			return err
		}
		h.h = nil
		return nil
	})
}

// RegisterOptions are what ibv_reg_mr_ex takes: memory by address or by
// dma-buf, and a DMA handle.
type RegisterOptions struct {
	Mem    []byte // by address: mapped or C memory
	DMABuf int    // by dma-buf, where Mem is nil: descriptor,
	Offset uint64 // offset in it
	Length uint64 // and length
	IOVA   uint64 // address in work requests; 0 with Mem: the memory's own
	DMAH   *DMAHandle
	Access Access
}

// RegisterWith registers memory by ibv_reg_mr_ex (symbol version 1.15 of the
// library); Register and RegisterDMABuf need no new library.
func (pd *PD) RegisterWith(o RegisterOptions) (*MR, error) {
	if !HasFunction("ibv_reg_mr_ex") {
		return nil, unsupported("ibv_reg_mr_ex", pd.describe())
	}
	var (
		a    C.struct_vb_mr_attr
		more []*object
		pin  runtime.Pinner
	)
	defer pin.Unpin()
	a.access = C.int(o.Access)
	if o.Mem != nil {
		p := unsafe.SliceData(o.Mem)
		pin.Pin(p)
		a.addr, o.Length = unsafe.Pointer(p), uint64(len(o.Mem))
		a.comp_mask = 2
		if o.IOVA == 0 {
			o.IOVA = uint64(uintptr(unsafe.Pointer(p)))
		}
	} else {
		a.fd, a.fd_offset = C.int(o.DMABuf), C.uint64_t(o.Offset)
		a.comp_mask = 4 | 8
	}
	a.length, a.iova = C.size_t(o.Length), C.uint64_t(o.IOVA)
	a.comp_mask |= 1
	if o.DMAH != nil {
		a.dmah = o.DMAH.h
		a.comp_mask |= 16
		more = append(more, &o.DMAH.object)
	}
	mr, err := pd.register("ibv_reg_mr_ex", o.Length, o.IOVA, o.Access, func() (*C.struct_ibv_mr, error) {
		p, err := C.vb_reg_ex(pd.pd, &a)
		if o.Mem != nil {
			err = pd.pagingError(p, o.Length, o.Access, err)
		}
		return p, err
	}, more...)
	if err == nil {
		mr.mem = o.Mem
	} else if o.Mem == nil {
		pd.explainDMABuf(err, o.DMABuf, umem.Request{
			Offset: o.Offset, Length: o.Length, IOVA: o.IOVA, Access: uint64(o.Access), DMAHandle: o.DMAH != nil,
		})
	}
	return mr, err
}

// ProviderBuffer is memory that the driver chose, so that it can be registered
// where ordinary memory cannot, as in confidential machines (ibv_alloc_buf,
// symbol version 1.17 of the library).
type ProviderBuffer struct {
	object
	pd  *PD
	buf *C.struct_vb_buf
	mem []byte
}

// AllocBuffer has the driver allocate memory.
func (pd *PD) AllocBuffer(length int) (*ProviderBuffer, error) {
	if !HasFunction("ibv_alloc_buf") {
		return nil, unsupported("ibv_alloc_buf", pd.describe())
	}
	b := &ProviderBuffer{pd: pd}
	if err := b.attach("ibv_alloc_buf", "buffer", &pd.object); err != nil {
		return nil, err
	}
	var raw *C.struct_vb_buf
	p, errno := C.vb_alloc_buf(pd.pd, C.size_t(length), &raw)
	if p == nil {
		b.detach()
		return nil, failed("ibv_alloc_buf", fmt.Sprintf("%s, %d bytes", pd.describe(), length), errno, "")
	}
	b.buf, b.mem = raw, unsafe.Slice((*byte)(p), length)
	b.rename("%p", p)
	return b, nil
}

// Bytes is the memory, nil once the buffer is closed.
func (b *ProviderBuffer) Bytes() []byte { return b.mem }

// Register registers a range of the buffer under its own address.
func (b *ProviderBuffer) Register(offset, length int, access Access) (*MR, error) {
	if b.mem == nil || offset < 0 || length < 0 || offset > len(b.mem) || length > len(b.mem)-offset {
		return nil, &Error{Verb: "ibv_reg_buf_mr", Object: b.pd.describe(), Err: ErrRange}
	}
	p := unsafe.Pointer(unsafe.SliceData(b.mem[offset:]))
	return b.pd.register("ibv_reg_buf_mr", uint64(length), uint64(uintptr(p)), access, func() (*C.struct_ibv_mr, error) {
		mr, err := C.vb_reg_buf(b.pd.pd, b.buf, p, C.size_t(length), C.int(access))
		return mr, err
	}, &b.object)
}

// ExportDMABuf gives a dma-buf of the memory, to be closed by the caller.
func (b *ProviderBuffer) ExportDMABuf() (*os.File, error) {
	if !HasFunction("ibv_export_buf_dmabuf_fd") {
		return nil, unsupported("ibv_export_buf_dmabuf_fd", b.name())
	}
	fd, errno := C.vb_export_buf(b.buf)
	if fd < 0 {
		return nil, failed("ibv_export_buf_dmabuf_fd", b.name(), errno, "")
	}
	return os.NewFile(uintptr(fd), b.name()), nil
}

// Close frees the memory. It is ErrBusy while regions stand on it.
func (b *ProviderBuffer) Close() error {
	return b.close("ibv_free_buf", func() error {
		C.vb_free_buf(b.buf)
		b.buf, b.mem = nil, nil
		return nil
	})
}
