package verbs

// Slice is a piece of a local region, as a work request names it.
type Slice struct {
	Addr   uint64
	Length uint32
	LKey   uint32
	bad    bool // At was asked for bytes outside the region
}

// At is the slice of length bytes from offset on. A slice outside the region
// makes the request that uses it fail with ErrRange.
func (m *MR) At(offset uint64, length uint32) Slice {
	return Slice{
		Addr:   m.iova + offset,
		Length: length,
		LKey:   m.lkey,
		bad:    !m.holds(offset, uint64(length)),
	}
}

// holds tells whether a range lies in the region.
func (m *MR) holds(offset, length uint64) bool {
	return m.mr != nil && offset <= m.length && length <= m.length-offset
}

// RemoteRegion is a peer's region as the peer described it.
type RemoteRegion struct {
	Addr   uint64 `json:"addr"`
	Length uint64 `json:"length"`
	RKey   uint32 `json:"rkey"`
}

// Remote describes the region to a peer.
func (m *MR) Remote() RemoteRegion {
	return RemoteRegion{Addr: m.iova, Length: m.length, RKey: m.rkey}
}

// RemoteSlice is a place in a peer's region. Left is the number of bytes from
// there to the region's end, so that a request over it fails here and not
// there.
type RemoteSlice struct {
	Addr uint64
	RKey uint32
	Left uint64
}

// At is the place offset bytes into the region.
func (r RemoteRegion) At(offset uint64) RemoteSlice {
	if offset > r.Length {
		return RemoteSlice{}
	}
	return RemoteSlice{Addr: r.Addr + offset, RKey: r.RKey, Left: r.Length - offset}
}
