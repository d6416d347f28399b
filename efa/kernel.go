//go:build cgo

package efa

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/peerdirect/peerdirect/internal/umem"
	"github.com/peerdirect/peerdirect/verbs"
)

// Devices lists the EFA devices of this machine by name. It is ErrNoDevice that
// there are none.
func Devices() ([]string, error) {
	all, err := verbs.Devices()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range all {
		if isEFA(d) {
			names = append(names, d.Name)
		}
	}
	if names == nil {
		return nil, noEFA("", all)
	}
	return names, nil
}

// isEFA knows a device by its kernel driver: names can be changed.
func isEFA(d verbs.DeviceInfo) bool {
	driver, err := os.Readlink(d.Sysfs + "/device/driver")
	return err == nil && driver[strings.LastIndexByte(driver, '/')+1:] == "efa"
}

func noEFA(name string, all []verbs.DeviceInfo) error {
	var others []string
	for _, d := range all {
		others = append(others, d.Name)
	}
	return &Error{Op: "open", Object: name, Err: ErrNoDevice,
		Detail: fmt.Sprintf("no such EFA device; there is %s. efa.Embedded needs none", strings.Join(others, ", "))}
}

// kernel is a device of the kernel's driver.
type kernel struct {
	dev  *verbs.Device
	dv   dvAttr
	how  Path
	part uint32
}

// Open opens a device of the machine by its name. An empty name means the only
// one, and is an error when there are several.
func Open(name string) (*Device, error) { return OpenWith(name, OpenOptions{}) }

// OpenWith opens a device of the machine.
func OpenWith(name string, o OpenOptions) (*Device, error) {
	all, err := verbs.Devices()
	if err != nil {
		return nil, err
	}
	var found []verbs.DeviceInfo
	for _, d := range all {
		if isEFA(d) && (name == "" || d.Name == name) {
			found = append(found, d)
		}
	}
	switch {
	case len(found) == 0:
		return nil, noEFA(name, all)
	case len(found) > 1:
		return nil, &Error{Op: "open", Err: errInvalid, Detail: fmt.Sprintf("%d EFA devices, name one of them", len(found))}
	}
	if _, err := libefa(); err != nil {
		return nil, err
	}
	dev, err := verbs.Open(found[0].Name)
	if err != nil {
		return nil, err
	}
	k := &kernel{dev: dev}
	if k.dv, err = dvQueryDevice(dev.Handle(), dev.Name()); err != nil {
		dev.Close()
		return nil, err
	}
	if a, err := dev.Attr(); err == nil {
		k.part = a.VendorPartID
	}
	k.how = k.decide(o)
	return newDevice(dev.Name(), k)
}

// decide says whether this package can drive the device's rings.
func (k *kernel) decide(o OpenOptions) Path {
	switch {
	case o.Library:
		return Path{Reason: "asked for"}
	case !dvHasRings():
		lib, _ := libefa()
		return Path{Reason: fmt.Sprintf("%s has no efadv_query_qp_wqs and efadv_query_cq: install rdma-core 59 or newer", lib.Path())}
	case k.part == 0xefa0:
		return Path{Reason: "PCI device 0xefa0 has several sub-CQs in each completion queue"}
	}
	n, err := k.subCQs()
	switch {
	case err != nil:
		return Path{Reason: fmt.Sprintf("the number of sub-CQs could not be found: %v", err)}
	case n != 1:
		return Path{Reason: fmt.Sprintf("the device has %d sub-CQs in each completion queue", n)}
	}
	return Path{Direct: true}
}

// subCQs finds the number of sub-CQs, which the library does not tell, from the
// size of a queue's mapping: the kernel's driver maps room for all of them
// (create_user_cq of efa_verbs.c). A queue of a page's worth of entries makes the
// numbers differ by whole pages.
func (k *kernel) subCQs() (int, error) {
	page := os.Getpagesize()
	cq, err := k.dev.CreateCQ(verbs.CQOptions{Depth: page / cqeBytes})
	if err != nil {
		return 0, err
	}
	defer cq.Close()
	m, err := dvQueryCQ(cq.Handle(), k.dev.Name())
	if err != nil {
		return 0, err
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0, err
	}
	mapped, err := mappingAt(string(maps), uint64(uintptr(m.ring)))
	if err != nil {
		return 0, err
	}
	one := uint64((m.entry*m.count + page - 1) / page * page)
	if m.entry != cqeBytes || one == 0 || mapped%one != 0 {
		return 0, fmt.Errorf("a queue of %d entries of %d bytes is mapped in %d bytes", m.count, m.entry, mapped)
	}
	return int(mapped / one), nil
}

// mappingAt gives the size of the mapping that begins at an address, from the
// text of /proc/self/maps (proc_pid_maps(5)).
func mappingAt(maps string, start uint64) (uint64, error) {
	for line := range strings.Lines(maps) {
		span, _, _ := strings.Cut(line, " ")
		from, to, ok := strings.Cut(span, "-")
		a, err1 := strconv.ParseUint(from, 16, 64)
		b, err2 := strconv.ParseUint(to, 16, 64)
		if ok && err1 == nil && err2 == nil && a == start {
			return b - a, nil
		}
	}
	return 0, fmt.Errorf("no mapping begins at %#x", start)
}

func (k *kernel) attr() (Attr, error) {
	a, err := k.dev.Attr()
	if err != nil {
		return Attr{}, err
	}
	port, err := k.dev.Port(1)
	if err != nil {
		return Attr{}, err
	}
	gid, err := k.dev.GIDAt(1, 0)
	if err != nil {
		return Attr{}, err
	}
	out := Attr{
		GID: GID(gid.GID), MTU: int(port.MaxMsgSize), Part: int(a.VendorPartID), Firmware: a.FirmwareVersion,
		MaxSend: k.dv.maxSend, MaxRecv: k.dv.maxRecv, MaxSendSGE: k.dv.maxSendSGE, MaxRecvSGE: k.dv.maxRecvSGE,
		MaxRDMASGE: a.MaxSGERead, MaxInline: k.dv.inline, MaxInlineEx: max(k.dv.inline, k.dv.inlineEx),
		MaxRDMA: k.dv.maxRDMA, Caps: k.dv.caps,
		MaxCQ: a.MaxCQ, MaxCQDepth: a.MaxCQE, MaxQP: a.MaxQP, MaxMR: a.MaxMR, MaxMRSize: a.MaxMRSize,
		MaxPD: a.MaxPD, MaxAH: a.MaxAH, Vectors: k.dev.Vectors(),
	}
	// Newer libraries know what the device memory of send queues allows.
	if n := dvMaxSend(k.dev.Handle(), 0, false); n > 0 {
		out.MaxSend = n
	}
	if n := dvMaxRecv(k.dev.Handle(), 1); n > 0 {
		out.MaxRecv = n
	}
	return out, nil
}

func (k *kernel) path() Path   { return k.how }
func (k *kernel) close() error { return k.dev.Close() }

// kernelDomain is a protection domain.
type kernelDomain struct {
	k  *kernel
	pd *verbs.PD
}

func (k *kernel) allocPD() (domain, error) {
	pd, err := k.dev.AllocPD()
	if err != nil {
		return nil, err
	}
	return &kernelDomain{k, pd}, nil
}

func (d *kernelDomain) close() error { return d.pd.Close() }

// kernelRegion is a memory region.
type kernelRegion struct {
	k  *kernel
	mr *verbs.MR
}

func (d *kernelDomain) register(mem []byte, iova uint64, access Access) (region, error) {
	mr, err := d.pd.RegisterAddress(pointer(mem), uint64(len(mem)), iova, verbs.Access(access))
	return d.region(mr, err)
}

func (d *kernelDomain) registerDMABuf(fd int, offset, length, iova uint64, access Access) (region, error) {
	mr, err := d.pd.RegisterDMABuf(fd, offset, length, iova, verbs.Access(access))
	if failure := (*verbs.Error)(nil); errors.Is(err, ErrUnsupported) && errors.As(err, &failure) && verbs.HasFunction(failure.Verb) && access&(RemoteRead|RemoteWrite) != 0 {
		// verbs does not know what the device can do of remote access.
		r := umem.Request{Offset: offset, Length: length, IOVA: iova, Access: uint64(access)}
		r.Gather(fd, d.k.dev.Name())
		r.Device.Access = dmabufAccess(d.k.dv.caps)
		failure.Detail = umem.Explain(&r, syscall.EOPNOTSUPP)
	}
	return d.region(mr, err)
}

func (d *kernelDomain) region(mr *verbs.MR, err error) (region, error) {
	if err != nil {
		return nil, err
	}
	return &kernelRegion{d.k, mr}, nil
}

func (r *kernelRegion) keys() (lkey, rkey uint32) { return r.mr.LKey(), r.mr.RKey() }
func (r *kernelRegion) close() error              { return r.mr.Close() }

func (r *kernelRegion) interconnects() (Interconnects, error) {
	return dvQueryMR(r.mr.Handle(), r.k.dev.Name())
}

// kernelHandle is an address handle.
type kernelHandle struct {
	ah *verbs.AH
	n  uint16
}

func (d *kernelDomain) createAH(gid GID) (handle, error) {
	ah, err := d.pd.CreateAH(verbs.Route{Port: 1, DGID: verbs.GID(gid), SGIDIndex: 0, Global: true})
	if err != nil {
		return nil, err
	}
	n, err := dvQueryAH(ah.Handle(), d.k.dev.Name())
	if err != nil {
		ah.Close()
		return nil, err
	}
	return &kernelHandle{ah, n}, nil
}

func (h *kernelHandle) number() uint16 { return h.n }
func (h *kernelHandle) close() error   { return h.ah.Close() }
