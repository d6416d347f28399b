// Package verbs is RDMA verbs for Go: the objects of libibverbs, one type
// each, over the library that is loaded when the program runs.
//
// A program starts without rdma-core; the first call that needs it tells what
// is missing. What the loaded library or the device lacks is an error that
// errors.Is finds as ErrUnsupported, so a program asks for the newer way first
// and falls back.
//
// # Objects
//
// A Device makes protection domains (PD), completion queues (CQ) and channels;
// a PD makes memory regions (MR), queue pairs (RC, UC, UD, RawPacket and the
// general QP) and the rarer objects. Close is explicit, may be repeated, and
// is refused with ErrBusy, naming the users, while others stand on the object.
// ReportLeaks finds objects that were dropped; Live counts those that are
// open.
//
// # The data path
//
// A Batch collects requests in memory that the library reads; Post hands all
// of them over in one call into C. CQ.Poll takes completions in another.
// Neither allocates, locks or waits. Programs that rather sleep than poll wait
// on a Channel, which costs a goroutine and no thread.
//
// Memory that a device reaches must not be Go's heap: use Buffer, or any
// mapping or C memory of your own.
package verbs

import (
	_ "github.com/peerdirect/peerdirect/internal/needs/cgo"
	_ "github.com/peerdirect/peerdirect/internal/needs/linux"
)
