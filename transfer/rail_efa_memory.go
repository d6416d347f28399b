package transfer

import (
	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/verbs"
)

// Register makes memory reachable for this NIC and its peers.
func (r *EFA) Register(mem []byte) (*Region, error) {
	if r.closed {
		return nil, verbs.ErrClosed
	}
	mr, err := r.dev.Register(mem, r.access())
	if err != nil {
		return nil, err
	}
	return r.mrs.add(efaRegion(mr)), nil
}

// access is what peers may do to regions, and this side's own reads and receives.
func (r *EFA) access() efa.Access {
	if r.info.Reads {
		return efa.LocalWrite | efa.RemoteWrite | efa.RemoteRead
	}
	return efa.LocalWrite | efa.RemoteWrite
}

func efaRegion(mr *efa.MR) *Region {
	return &Region{addr: mr.IOVA(), length: mr.Length(), lkeys: []uint32{mr.LKey()}, rkeys: []uint32{mr.RKey()}, close: mr.Close}
}

// RegisterExport does it by dma-buf.
func (r *EFA) RegisterExport(e *Export) (*Region, error) {
	if r.closed {
		return nil, verbs.ErrClosed
	}
	region, err := e.register(r.info.Device, func(b *dmabuf.Buffer, iova uint64) (*Region, error) {
		mr, err := r.dev.RegisterDMABuf(b.FD(), b.Offset, b.Length, iova, r.access())
		if err != nil {
			return nil, err
		}
		return efaRegion(mr), nil
	})
	if err != nil {
		return nil, err
	}
	return r.mrs.add(region), nil
}
