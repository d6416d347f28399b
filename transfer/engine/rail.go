package engine

import "github.com/peerdirect/peerdirect/transfer"

// Rail is what the engine needs of a NIC's queues. It never learns which transport
// is below.
type Rail = transfer.Rail
