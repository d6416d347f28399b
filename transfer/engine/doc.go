// Package engine moves memory over all rails of a node, to and from peers that
// come and go.
//
//	e, err := engine.New(engine.Options{Rails: engine.Specs(opener, transfer.Want{Peers: 64}, 1)})
//	region, err := e.Register(mem)                   // or RegisterMemory, by dma-buf
//
//	peer, err := e.Join(ctx, "192.0.2.1:18631", credentials, control.Options{}) // one side
//	peer, err := listener.Accept(ctx)                                           // the other
//
//	err = peer.Grant("kv", region, engine.Write)     // the owner of the memory
//	target, err := peer.Target(ctx, "kv")            // who may write it
//
//	t, err := peer.Write(ctx, engine.Move{Local: region, Remote: target,
//		PageSize: 64 << 10, LocalPages: mine, RemotePages: theirs, Notify: engine.Counts(7)})
//	err = t.Wait(ctx)                                // the writer
//	err = peer.Counter(7).Wait(ctx, 1)               // the owner
//
//	g, err := e.Scatter(ctx, moves)                  // to many peers, one handle
//	err = peer.Send(ctx, order)                      // small messages, in order
//	order, err := peer.Receive(ctx)
//	err = e.Barrier(ctx, peers, "step")              // all have come
//
// # What is promised
//
// A rail is reliable and keeps no order (see [transfer.Rail]). So nothing is
// inferred from an order: a transfer is cut into pieces, which any rail may take;
// when all have completed, the notice is posted; whoever counts it finds every
// byte in place. A transfer that is one piece goes with its notice as one request,
// of which the rail promises the same: one way instead of three.
//
//   - A transfer ends exactly once, for everybody who asks the same way.
//   - Once it has ended, however it did, nothing of it lands any more.
//   - A notice counts once, also if its rail failed and it was sent again.
//   - A counter is never set back: what comes before somebody waits is counted.
//   - Messages come once and in order. One that a rail lost is sent again.
//   - Once a peer's Fenced is closed, or a grant withdrawn, nothing of that peer
//     lands there any more.
//
// # When a rail fails
//
// The side that sees it disconnects its end, so that its NIC takes nothing more,
// and says so. What had been on its way is done again by other rails only when
// the peer has said the same of its end: a late packet of the first try cannot
// land after the second. A notice is done again only when the peer has been asked,
// too, and did not count it. After Options.CoolDown the side that made the
// control connection offers the rail anew: a new generation, of which nothing old
// is.
//
// A worker none of whose rails is connected hands what it has to another. A peer
// that stays without any rail for Options.RailTime, or does not confirm a fence in
// Options.FenceTime, is lost, though its control connection lives: nothing waits
// for ever.
//
// A failure that is the request's own fault (a key that the peer's NIC does not
// know) ends its transfer.
//
// # How a transfer is divided
//
// Pieces have Options.MaxPiece bytes at most. A transfer that would make few is cut
// so that each rail has a share, but into none below Options.MinShard. A worker's
// share is 4 times that at least: 64 KiB by one worker, 128 KiB by two. What one
// worker gets, and notifies, is one piece with its notice if it is one segment. In
// the simulation of 32 NICs and 8 workers this took a scatter of 64 KiB to 56 peers
// from 62 us to 32, its posting from 9.0 us to 1.8. Transfers begin with one worker
// after the other, and that worker posts the notice.
//
// # Which rails
//
// Memory is registered with the rails that it is near to, by Options.Near, and
// transfers go by those that both memories are near to. [Placed] makes rails,
// workers and Near of a machine's topology. When no near rail is up, memory is
// registered with others on demand: registering is dear, so it is not done before,
// and never by a worker. A rail that does not take it is passed over, and asked again
// after Options.CoolDown. Without Near all rails are near.
//
// Registrations may be kept for the next region of the same memory (CacheOptions),
// but none whose keys were told to a peer.
//
// # Workers
//
// Each worker drives its rails on a thread of its own, by steps: take what came,
// poll, then post what there is with one doorbell for each rail. Workers share
// nothing that is written on the way of a request; a notice touches the counter
// that it counts for, and no lock.
//
// # Trust
//
// Keys go to authenticated peers (package control), for the regions granted to
// them. A NIC knows a region's key and not who uses it: a peer that was granted a
// region can reach it until the region is closed, or the peer is fenced. Rights are
// kept by the peer's engine, not by the NIC.
//
// # Use
//
// Everything may be called from any goroutine, but what Manual says. Functions given
// to Then and Call run on a worker and must not block. Closing: transfers end, then
// regions, peers and the engine are closed, memory last; Engine.Close does all but the
// last in that order, and whoever wants its peers to know that all is done says so by a
// message or a barrier before. Engines need Linux and cgo; embedded NICs need nothing
// else, others what verbs, efa and dmabuf need. Offsets, lengths and sizes are bytes.
package engine
