package transfer

import (
	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/verbs"
)

// Register makes memory reachable for this NIC and its peers.
func (r *RC) Register(mem []byte) (*Region, error) {
	if r.closed {
		return nil, verbs.ErrClosed
	}
	mr, err := r.pd.Register(mem, r.access())
	if err != nil {
		return nil, err
	}
	return r.regions.add(rcRegion(mr)), nil
}

// access is what peers may do to regions, and this side's own reads and receives.
func (r *RC) access() verbs.Access {
	if r.info.Reads {
		return verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead
	}
	return verbs.LocalWrite | verbs.RemoteWrite
}

func rcRegion(mr *verbs.MR) *Region {
	return &Region{addr: mr.IOVA(), length: mr.Length(), lkeys: []uint32{mr.LKey()}, rkeys: []uint32{mr.RKey()}, close: mr.Close}
}

// RegisterExport does it by dma-buf.
func (r *RC) RegisterExport(e *Export) (*Region, error) {
	if r.closed {
		return nil, verbs.ErrClosed
	}
	region, err := e.register(r.info.Device, func(b *dmabuf.Buffer, iova uint64) (*Region, error) {
		mr, err := r.pd.RegisterDMABuf(b.FD(), b.Offset, b.Length, iova, r.access())
		if err != nil {
			return nil, err
		}
		return rcRegion(mr), nil
	})
	if err != nil {
		return nil, err
	}
	return r.regions.add(region), nil
}
