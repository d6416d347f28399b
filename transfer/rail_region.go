package transfer

import (
	"errors"
	"sync"
)

// ErrRange is an operation on bytes outside its region.
var ErrRange = errors.New("outside the region")

// Region is memory that is registered with a rail, on each of its NICs.
type Region struct {
	addr   uint64
	length uint64
	lkeys  []uint32 // one for each NIC
	rkeys  []uint32

	mu    sync.Mutex
	close func() error
}

// Local is a piece of a region, as an operation names it.
type Local struct {
	Addr   uint64
	Length uint32
	Key    uint32 // of the first NIC
	keys   []uint32
	bad    bool
}

// At is the piece of length bytes from offset on. Post refuses one that is
// outside the region.
func (r *Region) At(offset uint64, length uint32) Local {
	return Local{Addr: r.addr + offset, Length: length, Key: r.lkeys[0], keys: r.lkeys,
		bad: offset > r.length || uint64(length) > r.length-offset}
}

// Length is the region's size in bytes.
func (r *Region) Length() uint64 { return r.length }

// Descriptor describes the region to peers.
func (r *Region) Descriptor() Descriptor {
	return Descriptor{Addr: r.addr, Length: r.length, Keys: r.rkeys}
}

// Part is length bytes of the region from offset on as a region of their own, by the
// same keys. It calls close when it is closed, and must be before the region is.
func (r *Region) Part(offset, length uint64, close func() error) (*Region, error) {
	if offset > r.length || length > r.length-offset {
		return nil, ErrRange
	}
	return &Region{addr: r.addr + offset, length: length, lkeys: r.lkeys, rkeys: r.rkeys, close: close}, nil
}

// Close deregisters the memory. It may be called again.
func (r *Region) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.close == nil {
		return nil
	}
	err := r.close()
	if err == nil {
		r.close = nil
	}
	return err
}

// Descriptor is a region as its owner described it to a peer. Its keys are for
// the owner's NICs in their order, which are connected one by one to the peer's.
type Descriptor struct {
	Addr   uint64
	Length uint64 // bytes
	Keys   []uint32
}

// Remote is a place in a peer's region.
type Remote struct {
	Addr uint64
	Key  uint32 // for the first NIC
	keys []uint32
	left uint64 // bytes to the region's end
}

// At is the place offset bytes into the region.
func (d Descriptor) At(offset uint64) Remote {
	if offset > d.Length || len(d.Keys) == 0 {
		return Remote{}
	}
	return Remote{Addr: d.Addr + offset, Key: d.Keys[0], keys: d.Keys, left: d.Length - offset}
}

// NewRegion makes the region of a rail that is not of this package.
func NewRegion(addr, length uint64, lkey, rkey uint32, close func() error) *Region {
	return &Region{addr: addr, length: length, lkeys: []uint32{lkey}, rkeys: []uint32{rkey}, close: close}
}
