// Package transfer moves pages of one machine's memory into pages of another's
// by RDMA, pages that are contiguous on neither side.
//
//	l, err := transfer.Listen(ctx, "192.0.2.1:18630", transfer.ListenOptions{})
//	result, err := l.Receive(ctx)                                   // one machine
//
//	result, err := transfer.To(ctx, "192.0.2.1:18630", transfer.SendOptions{
//		Layout: transfer.Layout{PageSize: 64 << 10, Pages: 512, Stride: 2, Seed: 1},
//	})                                                              // the other
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
// # Memory
//
// Pages lie in memory of the process, or with [Options].Memory in that of an
// exporter of package dmabuf: an accelerator's, which each NIC registers by its
// dma-buf (an [Export]) and the CPU copies in and out through the exporter. Each
// side has its own. A NIC that refuses is a [MemoryError]; no page goes another way
// instead.
//
// # What goes over the wire
//
// A TCP connection (package verbs/exchange) carries a hello, by which both sides
// know that their rails are of one kind and how many NICs to use, and what the
// queue pairs need to connect. From then on it only tells how the other side ends:
// with a reason, or without. Everything else goes over the rail:
//
//	sender                            receiver
//	SEND  propose: layout, rounds  ->
//	                               <- SEND  accept: address, keys
//	then for each round, an epoch:
//	SEND  begin                    ->
//	WRITE, one for each run        ->
//	notice: so many are placed     -> counts
//	                               <- SEND  arrived: all are counted
//	SEND  checksums of the pages   -> compares
//	                               <- SEND  verdict: which differ
//	and at last:
//	SEND  bye                      <> SEND  bye
//
// A notice is an immediate, 8 bits of epoch and 24 of a count of pages, and is
// posted after the writes it counts have completed, on whichever NICs. On
// InfiniBand, RoCE and EFA such a completion means that the peer's NIC has
// acknowledged the bytes. On iWARP, which has no immediate, the notice is a SEND
// of 8 bytes; the completion of a write there means only that TCP has it, but the
// SEND goes by the same queue pair and arrives behind the bytes. In all cases who
// counts a page finds it in place. Counts are kept by epoch, however early they
// come.
//
// Each message and notice takes a receive of the other side's. The sender
// counts them and the receiver gives them back by credit messages; with no
// credit left, counts of pages gather for the next notice.
//
// # Ends
//
// Memory that a peer could write is unmapped only after the queue pairs are
// destroyed. Whatever a peer says is checked, and a sender gets no more memory
// than the receiver's limit.
package transfer
