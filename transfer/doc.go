// Package transfer is the part of moving memory that knows devices: what the engine
// and whoever else posts work requests stand on.
//
//	opener, err := transfer.Named("efa", transfer.RCOptions{})   // the machine's devices by name
//	rail, err := opener.Open(transfer.Want{Peers: 4})
//	region, err := rail.Register(mem)
//	peer, offer, err := rail.Offer()                             // goes to the other side
//	err = rail.Accept(peer, theirs)
//	n, err := rail.Post([]transfer.Op{{Kind: transfer.OpWrite, Peer: peer,
//		Local: region.At(0, 4096), Remote: descriptor.At(0)}})
//
// Package transfer/engine moves memory over many rails to and from many peers, and
// package transfer/pages scattered pages, verified, as the command peerdirect transfer
// does.
//
// # Rails
//
// A [Rail] is one NIC's queues, with the least that RC and SRD both promise:
// reliable, and without any order. Everything above it is written against that
// alone, so that what is done is counted and never inferred from an order.
// [RC] is a rail over libibverbs, [EFA] one over SRD, on a device of the kernel
// or in this process, and [Joined] makes one of several. Package railtest is what
// every rail must pass. Two rails connect by swapping offers, over whatever their
// owners talk by, and a peer that is disconnected reaches this side no more. An
// [Opener] says which to use: [RCOptions], [EFAOptions], what [Named] finds by a
// device's name, or a node of an [Embedded].
//
// On InfiniBand, RoCE and EFA the completion of a write means that the peer's NIC has
// acknowledged the bytes. On iWARP it means only that TCP has them; what is sent later
// by the same queue pair arrives behind them, and so does a notice, which has no
// immediate there and is a SEND.
//
// # Memory
//
// Regions lie in memory of the process, or in that of an exporter of package dmabuf:
// an accelerator's, which each NIC registers by its dma-buf (an [Export]). A NIC that
// refuses is a [MemoryError]; nothing goes another way instead.
//
// # Goroutines and closing
//
// A rail belongs to one goroutine; regions may be made and closed by others until its
// Close. Closing is in the order: what uses the regions, regions, rails, their nodes
// (Embedded); memory goes last. Close may be repeated where it failed.
//
// # Errors
//
// ErrRange and *OptionError are the caller's own mistakes. A *LostError tells of a peer
// once, ErrFlushed of everything that fell with it; a *MemoryError of a NIC that does
// not take an exporter's memory. What devices answer is inside: errors.Is finds the
// classes of verbs and efa (ErrNoDevice, ErrPermission, ErrUnsupported).
//
// It needs Linux and cgo, as verbs and dmabuf do; embedded nodes need no privilege.
package transfer
