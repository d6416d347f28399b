// Package pages moves scattered pages of one machine's memory into scattered pages of
// others' by the engine, and verifies each of them.
//
//	n, err := pages.Open(pages.Options{Rail: nics, Credentials: token})
//	l, err := n.Listen(ctx, "192.0.2.1:18630", pages.ListenOptions{})
//	result, err := l.Receive(ctx)                                    // one machine
//
//	n, err := pages.Open(pages.Options{Rail: nics, Credentials: token})
//	results, err := n.To(ctx, []string{"192.0.2.1:18630"}, pages.SendOptions{
//		Layout: pages.Layout{PageSize: 64 << 10, Pages: 512, Stride: 2, Seed: 1},
//	})                                                               // the other
//
// Pages lie in memory of the process, or with [Options].Memory in that of an exporter
// of package dmabuf: an accelerator's, which the CPU copies in and out through the
// exporter. Each side has its own.
//
// # What goes over the wire
//
// A control connection (package transfer/control), on which both sides have proved
// themselves, carries a hello of each side, by which they know that their devices are of
// one kind, and what embedded devices of two processes need to reach each other. Then
// it is the engines'. Everything else goes over the rails:
//
//	sender                            receiver
//	SEND  propose: layout, rounds  ->
//	                               <- grant of memory; SEND  accept
//	then for each round, an epoch:
//	SEND  ready                    ->
//	WRITE, one for each run        ->
//	notice: a batch is in place    -> counts
//	                               <- SEND  arrived: all are counted
//	SEND  checksums of the pages   -> compares
//	                               <- SEND  verdict: which differ
//	and at last:
//	SEND  bye                      -> leaves
//
// With [SendOptions].Read the sender grants its memory and the receiver READs the runs.
// A side whose work the other does not see, which is that, filling, comparing, and
// serving other receivers, says now and then that it is alive.
// Who gives up sends the reason, and leaves when the other has left.
//
// # Ends
//
// Memory that a peer could write is freed when the peer's rails are fenced, not before.
// Whatever a peer says is checked, and a sender gets no more memory than the receiver's
// limit.
//
// # Use
//
// A Node and a Listener may be used by several goroutines. Close the listener first,
// then the node; what goes on ends with an error. Errors are found by errors.Is, in
// the classes here and those of package control; of pages that differ it is a
// *VerifyError. It needs what package engine needs.
package pages
