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
//
// # Goroutines
//
// Objects may be made and closed by any goroutine. A Batch and a RecvBatch belong
// to one goroutine, so do the sends and the receives of a queue pair; one goroutine
// at a time polls a CQ. Close an object when nobody posts or polls there any more;
// a goroutine in Channel.Wait is woken by Close, and gets ErrClosed.
//
// # Closing
//
// In the reverse order of making: batches, queue pairs, queues, channels, regions,
// the domain, the device; a Buffer after its regions. What still has users refuses
// and stays open, so a second Close is never wrong.
//
// # What it needs
//
// Linux and cgo, with the headers of rdma-core (package libibverbs-dev) where it is
// built and libibverbs where it runs; the device's node in /dev/infiniband open for
// reading and writing; as much RLIMIT_MEMLOCK as memory is registered. CreateRawPacket
// needs CAP_NET_RAW. Sizes and lengths are bytes, rates what the kernel calls them.
//
// # Errors
//
// An *Error has the verb, the object, the errno and, where known, cause and remedy;
// a *PostError how many requests were taken; both unwrap to an errno or a class. A
// *CompletionError has the Status that a request ended with.
package verbs

import (
	_ "github.com/peerdirect/peerdirect/internal/needs/cgo"
	_ "github.com/peerdirect/peerdirect/internal/needs/linux"
)
