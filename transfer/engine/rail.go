package engine

import (
	"context"

	"github.com/peerdirect/peerdirect/transfer"
)

// Rail is what the engine needs of a NIC's queues: the part of [transfer.Rail]
// that knows nothing of control connections. The engine never learns which
// transport is below.
type Rail interface {
	Info() transfer.Info
	Register(mem []byte) (*transfer.Region, error)
	RegisterExport(e *transfer.Export) (*transfer.Region, error)
	Offer() (transfer.Peer, []byte, error)
	Accept(p transfer.Peer, offer []byte) error
	Disconnect(p transfer.Peer) error
	Post(ops []transfer.Op) (int, error)
	Poll(out []transfer.Completion) (int, error)
	Wait(ctx context.Context) error
	Depth() int
	Receives() int
	Close() error
}

var _ Rail = transfer.Rail(nil)
