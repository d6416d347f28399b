package verbs

/*
#include "shim.h"

static struct ibv_mr *vb_reg(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, unsigned access)
{
	errno = 0;
	return vb.ibv_reg_mr_iova2(pd, addr, len, iova, access);
}

static struct ibv_mr *vb_reg_dmabuf(struct ibv_pd *pd, uint64_t off, size_t len, uint64_t iova, int fd, int access)
{
	if (!vb.ibv_reg_dmabuf_mr) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	errno = 0;
	return vb.ibv_reg_dmabuf_mr(pd, off, len, iova, fd, access);
}

static struct ibv_mr *vb_null_mr(struct ibv_pd *pd)
{
	struct verbs_context *v = VB_OP(pd->context, alloc_null_mr);

	return v ? v->alloc_null_mr(pd) : NULL;
}

static int vb_dereg(struct ibv_mr *mr) { return vb_rc(vb.ibv_dereg_mr(mr)); }

static int vb_rereg(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t len, int access)
{
	errno = 0;
	return vb.ibv_rereg_mr(mr, flags, pd, addr, len, access);
}

static int vb_advise(struct ibv_pd *pd, int advice, uint32_t flags, uint64_t addr, uint32_t len, uint32_t lkey)
{
	struct ibv_sge sge = {.addr = addr, .length = len, .lkey = lkey};
	struct verbs_context *v = VB_OP(pd->context, advise_mr);

	return v ? vb_rc(v->advise_mr(pd, advice, flags, &sge, 1)) : EOPNOTSUPP;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/internal/errname"
	"github.com/peerdirect/peerdirect/internal/umem"
)

// MR is a memory region: memory that the device may reach, with its keys.
type MR struct {
	object
	pd     *PD
	mr     *C.struct_ibv_mr
	iova   uint64
	length uint64
	lkey   uint32
	rkey   uint32
	access Access
	mem    []byte // keeps the memory of Register reachable

	imported bool
}

// Register registers memory under its own address. The memory must be mapped
// or C memory (see Buffer): the device reaches it while the region is open,
// and this region keeps the slice reachable, but nothing can keep a stack or a
// file's mapping in place.
func (pd *PD) Register(mem []byte, access Access) (*MR, error) {
	if len(mem) == 0 {
		return nil, pd.regError("ibv_reg_mr", 0, access, syscall.EINVAL)
	}
	p := unsafe.Pointer(unsafe.SliceData(mem))
	mr, err := pd.RegisterAddress(p, uint64(len(mem)), uint64(uintptr(p)), access)
	if err != nil {
		return nil, err
	}
	mr.mem = mem
	return mr, nil
}

// RegisterAddress registers length bytes at addr, which need not be memory
// that Go knows. The peer addresses the region from iova on.
func (pd *PD) RegisterAddress(addr unsafe.Pointer, length, iova uint64, access Access) (*MR, error) {
	return pd.register("ibv_reg_mr", length, iova, access, func() (*C.struct_ibv_mr, error) {
		p, err := C.vb_reg(pd.pd, addr, C.size_t(length), C.uint64_t(iova), C.uint(access))
		return p, pd.pagingError(p, length, access, err)
	})
}

// RegisterOnDemand registers the whole address space for on-demand paging: no
// page is pinned, the device faults them in.
func (pd *PD) RegisterOnDemand(access Access) (*MR, error) {
	return pd.register("ibv_reg_mr", math.MaxUint64, 0, access|OnDemand, func() (*C.struct_ibv_mr, error) {
		p, err := C.vb_reg(pd.pd, nil, C.size_t(math.MaxUint64), 0, C.uint(access|OnDemand))
		return p, pd.pagingError(p, math.MaxUint64, access|OnDemand, err)
	})
}

// RegisterDMABuf registers length bytes at offset of the dma-buf fd. The
// descriptor may be closed afterwards: the region holds the buffer. An error
// names the rule of the kernel that failed, where that can be found.
func (pd *PD) RegisterDMABuf(fd int, offset, length, iova uint64, access Access) (*MR, error) {
	mr, err := pd.register("ibv_reg_dmabuf_mr", length, iova, access, func() (*C.struct_ibv_mr, error) {
		p, err := C.vb_reg_dmabuf(pd.pd, C.uint64_t(offset), C.size_t(length), C.uint64_t(iova), C.int(fd), C.int(access))
		return p, err
	})
	if err != nil {
		pd.explainDMABuf(err, fd, umem.Request{Offset: offset, Length: length, IOVA: iova, Access: uint64(access)})
	}
	return mr, err
}

// explainDMABuf says why a dma-buf was not registered, by the kernel's rules.
func (pd *PD) explainDMABuf(err error, fd int, r umem.Request) {
	e, ok := err.(*Error)
	if !ok {
		return
	}
	errno, ok := e.Err.(syscall.Errno)
	if !ok {
		return // not the kernel's
	}
	if !HasFunction(e.Verb) {
		e.Detail = "not in the libibverbs that is loaded"
		return
	}
	r.Gather(fd, pd.dev.info.Name)
	if a, err := pd.dev.Attr(); err == nil {
		r.Device.MaxMRSize, r.Device.PageSizes = a.MaxMRSize, a.PageSizeCap
	}
	e.Detail = umem.Explain(&r, errno)
}

// NullMR makes the region whose reads give zeros and whose writes vanish, for
// scatter lists that skip bytes.
func (pd *PD) NullMR() (*MR, error) {
	return pd.register("ibv_alloc_null_mr", math.MaxUint64, 0, 0, func() (*C.struct_ibv_mr, error) {
		p, err := C.vb_null_mr(pd.pd)
		return p, err
	})
}

// ImportsDMABuf probes whether the device's driver imports dma-bufs: asked
// with an impossible descriptor, a driver that does complains of it.
func (pd *PD) ImportsDMABuf() (bool, error) {
	mr, err := pd.RegisterDMABuf(-1, 0, 4096, 0, LocalWrite)
	switch {
	case err == nil:
		return true, mr.Close()
	case errors.Is(err, syscall.EBADF):
		return true, nil
	case errors.Is(err, ErrUnsupported), errors.Is(err, syscall.EPROTONOSUPPORT), errors.Is(err, errname.NotSupported):
		return false, nil
	}
	return false, err
}

func (pd *PD) register(verb string, length, iova uint64, access Access, reg func() (*C.struct_ibv_mr, error), more ...*object) (*MR, error) {
	mr := &MR{pd: pd, iova: iova, length: length, access: access}
	if err := mr.attach(verb, "mr", append([]*object{&pd.object}, more...)...); err != nil {
		return nil, err
	}
	p, errno := reg()
	if p == nil {
		mr.detach()
		return nil, pd.regError(verb, length, access, errno)
	}
	mr.mr = p
	mr.keys()
	return mr, nil
}

func (m *MR) keys() {
	m.lkey, m.rkey = uint32(m.mr.lkey), uint32(m.mr.rkey)
	m.rename("lkey %#x", m.lkey)
}

// regError explains why a registration failed, as far as it can be told from
// here without asking the kernel again.
func (pd *PD) regError(verb string, length uint64, access Access, err error) error {
	object := fmt.Sprintf("%s, %d bytes, access %v", pd.describe(), length, access)
	detail := ""
	switch {
	case length == 0:
		detail = "a region must have at least one byte"
	case access&(RemoteWrite|RemoteAtomic) != 0 && access&LocalWrite == 0:
		detail = "REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE too"
	case errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EPERM):
		var lim unix.Rlimit
		switch {
		case unix.Getrlimit(unix.RLIMIT_MEMLOCK, &lim) == nil && lim.Cur != unix.RLIM_INFINITY && lim.Cur < length:
			// A limit of 0 is EPERM, any other ENOMEM.
			detail = fmt.Sprintf("the memlock limit is %d bytes; raise it with: ulimit -l unlimited", lim.Cur)
		case errors.Is(err, syscall.ENOMEM):
			detail = "the memlock limit, the device's own limit, or an exporter that could not map"
		}
	case errors.Is(err, syscall.EFAULT):
		detail = "part of the range is not mapped, or not with the access asked for"
	case errors.Is(err, ErrUnsupported) && access&OnDemand != 0:
		detail = "the device has no on-demand paging"
	}
	return failed(verb, object, err, detail)
}

// pagingError is the error of a registration by address. Older drivers take the
// flag of on-demand paging for a wrong one where they have none.
func (pd *PD) pagingError(mr *C.struct_ibv_mr, length uint64, access Access, err error) error {
	if mr == nil && access&OnDemand != 0 && errors.Is(err, syscall.EINVAL) && pd.noODP(length) {
		return syscall.EOPNOTSUPP
	}
	return err
}

// noODP tells that the device is known to have no on-demand paging, or none of
// the whole address space.
func (pd *PD) noODP(length uint64) bool {
	a, err := pd.dev.Attr()
	return err == nil && (!a.ODP.Supported || length == math.MaxUint64 && !a.ODP.Implicit)
}

// PD is the protection domain of the region.
func (m *MR) PD() *PD { return m.pd }

// LKey names the region in this side's work requests.
func (m *MR) LKey() uint32 { return m.lkey }

// RKey names the region in the peer's work requests.
func (m *MR) RKey() uint32 { return m.rkey }

// Length is the region's size in bytes.
func (m *MR) Length() uint64 { return m.length }

// IOVA is the address of the region's first byte in work requests.
func (m *MR) IOVA() uint64 { return m.iova }

// Access is what the region was registered for.
func (m *MR) Access() Access { return m.access }

// Handle is the struct ibv_mr, nil once the region is closed.
func (m *MR) Handle() unsafe.Pointer { return unsafe.Pointer(m.mr) }

// Reregister changes the region's access, keeping its memory. After a failure
// the region may be unusable: the error says so, and Close is all that is left.
func (m *MR) Reregister(access Access) error {
	return m.rereg(C.IBV_REREG_MR_CHANGE_ACCESS, m.pd, nil, access)
}

// Retranslate moves the region onto other memory, keeping its access.
func (m *MR) Retranslate(mem []byte) error {
	if len(mem) == 0 {
		return m.pd.regError("ibv_rereg_mr", 0, m.access, syscall.EINVAL)
	}
	return m.rereg(C.IBV_REREG_MR_CHANGE_TRANSLATION, m.pd, mem, m.access)
}

// Rehome moves the region into another protection domain of the device.
func (m *MR) Rehome(pd *PD) error {
	return m.rereg(C.IBV_REREG_MR_CHANGE_PD, pd, nil, m.access)
}

func (m *MR) rereg(flags C.int, pd *PD, mem []byte, access Access) error {
	m.life.Lock()
	defer m.life.Unlock()
	if m.mr == nil {
		return &Error{Verb: "ibv_rereg_mr", Object: m.describe(), Err: ErrClosed}
	}
	moved := pd != m.pd
	if moved {
		if err := pd.hold("ibv_rereg_mr", &m.object); err != nil {
			return err
		}
	}
	rc, errno := C.vb_rereg(m.mr, flags, pd.pd, unsafe.Pointer(unsafe.SliceData(mem)), C.size_t(len(mem)), C.int(access))
	if rc != 0 {
		if moved {
			pd.drop(&m.object)
		}
		detail := "the region is as it was"
		switch rc {
		case C.IBV_REREG_MR_ERR_INPUT:
			detail += "; the arguments were wrong or the driver has no re-registration"
		case C.IBV_REREG_MR_ERR_CMD, C.IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW:
			detail = "the driver failed; the region is unusable, close it"
		}
		return failed("ibv_rereg_mr", m.describe(), errno, detail)
	}
	if moved {
		m.life.Rest(&pd.life, &m.pd.life)
		m.pd = pd
	}
	if mem != nil {
		m.mem, m.length = mem, uint64(len(mem))
		m.iova = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))
	}
	m.access = access
	m.keys()
	return nil
}

// Advice is what Advise tells the device (enum ibv_advise_mr_advice).
type Advice int

const (
	AdvicePrefetch      Advice = 0
	AdvicePrefetchWrite Advice = 1
	AdvicePrefetchNoFlt Advice = 2
)

// Advise tells the device of coming use of an on-demand region; flush waits
// until it was done.
func (m *MR) Advise(advice Advice, offset uint64, length uint32, flush bool) error {
	s := m.At(offset, length)
	if s.bad {
		return &Error{Verb: "ibv_advise_mr", Object: m.describe(), Err: ErrRange}
	}
	var flags C.uint32_t
	if flush {
		flags = C.IBV_ADVISE_MR_FLAG_FLUSH
	}
	rc := C.vb_advise(m.pd.pd, C.int(advice), flags, C.uint64_t(s.Addr), C.uint32_t(length), C.uint32_t(m.lkey))
	return code("ibv_advise_mr", m.describe(), int(rc), "")
}

func (m *MR) describe() string { return m.pd.dev.info.Name + " " + m.name() }

// Close deregisters the memory.
func (m *MR) Close() error {
	return m.close("ibv_dereg_mr", func() error {
		if m.imported {
			unimportMR(m.mr)
		} else if err := code("ibv_dereg_mr", m.describe(), int(C.vb_dereg(m.mr)), "a memory window may still be bound to it"); err != nil {
			return err
		}
		runtime.KeepAlive(m.mem)
		m.mr, m.mem = nil, nil
		return nil
	})
}
