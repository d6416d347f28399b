package kvcache

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/peerdirect/peerdirect/transfer/engine"
)

// Shape is what a node's cache looks like.
type Shape struct {
	Layers   int
	Pages    int    // of each layer
	PageSize uint64 // bytes

	// Lanes is how many requests are served at once, MaxPages how many pages of
	// a layer a request has at most. They are the same on both nodes.
	Lanes, MaxPages int
}

// Bytes is how long the cache is.
func (s Shape) Bytes() uint64 { return uint64(s.Layers) * s.layer() }

// layer is how long a layer is.
func (s Shape) layer() uint64 { return uint64(s.Pages) * s.PageSize }

// pages names pages of a layer.
func (s Shape) pages(layer int, index []uint32) engine.Pages {
	return engine.Pages{Offset: uint64(layer) * s.layer(), Index: index}
}

func (s Shape) check(cache *engine.Region) error {
	const most = 1 << 31
	switch {
	case s.Layers < 1 || s.Pages < 1 || s.PageSize < 1 || s.Layers > most || s.Pages > most || s.PageSize > most:
		return fmt.Errorf("a cache of %d layers with %d pages of %d bytes", s.Layers, s.Pages, s.PageSize)
	case s.Lanes < 1 || s.Lanes > 1<<15:
		return fmt.Errorf("%d lanes; there are 1 to %d", s.Lanes, 1<<15)
	case s.MaxPages < 1 || s.MaxPages > s.Pages:
		return fmt.Errorf("requests of up to %d pages; a layer has %d", s.MaxPages, s.Pages)
	case cache.Length()/uint64(s.Layers)/uint64(s.Pages) < s.PageSize:
		return fmt.Errorf("the cache's region has %d bytes; %d layers with %d pages of %d bytes do not fit", cache.Length(), s.Layers, s.Pages, s.PageSize)
	}
	return nil
}

// The numbers of a lane's notices. To the prefill node: that a request is there,
// and that it is cancelled. To the decode node: that one layer more is there, and
// that the request has ended.
func (s Shape) first(lane int) engine.Number  { return engine.Number(2 * lane) }
func (s Shape) second(lane int) engine.Number { return engine.Number(2*lane + 1) }

// counters are those that a peer's engine must have for it.
func (s Shape) counters(p *engine.Peer) error {
	for lane := range s.Lanes {
		if p.Counter(s.first(lane)) == nil || p.Counter(s.second(lane)) == nil {
			return fmt.Errorf("the engine has no counters for lane %d of %d: set Options.Counters to %d or more", lane, s.Lanes, 2*s.Lanes)
		}
	}
	return nil
}

// Names of the regions that the nodes grant each other.
const (
	cacheName    = "kvcache/cache"    // of the decode node
	requestsName = "kvcache/requests" // of the prefill node: records, by lane
	endsName     = "kvcache/ends"     // of the decode node: records, by lane
)

// Errors that errors.Is finds, beside the engine's. A request that was cancelled
// fails with engine.ErrCancelled.
var (
	// ErrFailed: the prefill node could not compute the request.
	ErrFailed = errors.New("the prefill failed")
	// ErrBusy is EBUSY: a page belongs to a request that has not ended.
	ErrBusy = error(syscall.EBUSY)

	errProtocol = errors.New("the peer does not keep to the protocol")
)
