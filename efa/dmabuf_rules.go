package efa

import (
	"fmt"
	"os"

	"github.com/peerdirect/peerdirect/efa/wire"
	"github.com/peerdirect/peerdirect/internal/umem"
)

// dmabufRefused says what the kernel and its efa driver would refuse, of an
// embedded device, with their error: what is registered here is taken there
// too. A file that is no dma-buf is let through, as memory that can be mapped.
func (e *embedded) dmabufRefused(fd int, offset, length, iova uint64, access Access) error {
	r := umem.Request{Offset: offset, Length: length, IOVA: iova, Access: uint64(access), Buffer: umem.ReadBuffer(fd), PageSize: uint64(os.Getpagesize())}
	if r.Buffer.State == umem.StateOther {
		r.Buffer.State = umem.StateUnknown
	}
	r.Device = umem.Device{Driver: "efa", PageSizes: 4096, Access: dmabufAccess(e.caps())}
	if f := umem.First(umem.Check(&r)); f != nil {
		return failed("register dma-buf", fmt.Sprintf("%s, %d bytes, access %v", e.dev.Name(), length, access), f.Errno, f.String())
	}
	return nil
}

func (e *embedded) caps() Caps {
	var caps Caps
	c := e.dev.Attr().Device.Caps
	if c&wire.CapRDMARead != 0 {
		caps |= CapRead
	}
	if c&wire.CapRDMAWrite != 0 {
		caps |= CapWrite
	}
	return caps
}

// dmabufAccess are the access bits that the driver takes of a device.
func dmabufAccess(caps Caps) uint64 {
	access := uint64(umem.LocalWrite)
	if caps&CapRead != 0 {
		access |= umem.RemoteRead
	}
	if caps&CapWrite != 0 {
		access |= umem.RemoteWrite
	}
	return access
}
