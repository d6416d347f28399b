package kvcache

import (
	"encoding/binary"
	"fmt"
)

// request is a lane's record at the prefill node. Integers are big-endian.
type request struct {
	id       uint64
	cancels  uint64 // that were given in the lane before
	layers   uint32
	all      uint32 // pages of a layer at the decode node
	pageSize uint64
	pages    []uint32
}

const requestHeader = 8 + 8 + 4 + 4 + 8 + 4

// requestBytes is how long a record is at most.
func (s Shape) requestBytes() int { return requestHeader + 4*s.MaxPages }

func (r *request) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, r.id)
	b = binary.BigEndian.AppendUint64(b, r.cancels)
	b = binary.BigEndian.AppendUint32(b, r.layers)
	b = binary.BigEndian.AppendUint32(b, r.all)
	b = binary.BigEndian.AppendUint64(b, r.pageSize)
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.pages)))
	for _, p := range r.pages {
		b = binary.BigEndian.AppendUint32(b, p)
	}
	return b
}

// parse reads a record, and whether this node can serve it.
func (r *request) parse(b []byte, s Shape) error {
	r.id = binary.BigEndian.Uint64(b)
	r.cancels = binary.BigEndian.Uint64(b[8:])
	r.layers = binary.BigEndian.Uint32(b[16:])
	r.all = binary.BigEndian.Uint32(b[20:])
	r.pageSize = binary.BigEndian.Uint64(b[24:])
	n := binary.BigEndian.Uint32(b[32:])
	switch {
	case int(r.layers) != s.Layers || r.pageSize != s.PageSize:
		return fmt.Errorf("the decode node's cache has %d layers with pages of %d bytes, the prefill node's %d with %d", r.layers, r.pageSize, s.Layers, s.PageSize)
	case n > uint32(s.MaxPages):
		return fmt.Errorf("a request of %d pages; the prefill node takes up to %d", n, s.MaxPages)
	}
	r.pages = make([]uint32, n)
	for i := range r.pages {
		r.pages[i] = binary.BigEndian.Uint32(b[requestHeader+4*i:])
	}
	return nil
}

// ending is how a request ended at the prefill node.
type ending uint32

const (
	endedDone ending = 1 + iota
	endedCancelled
	endedFailed
)

// end is a lane's record at the decode node.
type end struct {
	id     uint64
	told   uint32 // layers, by as many notices
	how    ending
	detail string // why it failed
}

const (
	endHeader = 8 + 4 + 4 + 1
	endDetail = 255
	endBytes  = endHeader + endDetail
)

func (e *end) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, e.id)
	b = binary.BigEndian.AppendUint32(b, e.told)
	b = binary.BigEndian.AppendUint32(b, uint32(e.how))
	detail := e.detail[:min(len(e.detail), endDetail)]
	return append(append(b, byte(len(detail))), detail...)
}

func (e *end) parse(b []byte) {
	e.id = binary.BigEndian.Uint64(b)
	e.told = binary.BigEndian.Uint32(b[8:])
	e.how = ending(binary.BigEndian.Uint32(b[12:]))
	e.detail = string(b[endHeader:][:b[endHeader-1]])
}
