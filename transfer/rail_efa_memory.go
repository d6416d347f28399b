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
	mr, err := r.dev.Register(mem, efa.LocalWrite|efa.RemoteWrite)
	if err != nil {
		return nil, err
	}
	return r.mrs.add(efaRegion(mr)), nil
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
		mr, err := r.dev.RegisterDMABuf(b.FD(), b.Offset, b.Length, iova, efa.LocalWrite|efa.RemoteWrite)
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
