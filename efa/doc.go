// Package efa drives the Elastic Fabric Adapter: reliable unordered endpoints
// (SRD) and datagram endpoints (UD), on the kernel's driver or on the software
// device of package efa/device in the same process.
//
// [Open] takes a device of the machine, through libibverbs and libefa, which
// are loaded when the program runs; [Embedded] makes one in this process. Both
// give the same [Device], and nothing after that tells them apart.
//
//	dev, err := efa.Open("efa_0")                // or efa.Embedded(fabric, …)
//	ep, err := dev.CreateSRD(efa.SRDOptions{})
//	mr, err := dev.Register(mem, efa.LocalWrite)
//	ah, err := dev.CreateAH(peer.GID)            // the peer needs one of us, too
//	to := ah.To(peer.QPN, peer.QKey)
//
//	batch := ep.Batch()
//	batch.Write(to, mr.At(0, 64<<10), region.At(0), 7)
//	err = batch.Post()
//	n, err := ep.Poll(done[:])
//
// # The paths
//
// On the direct path work entries are written and completions read in the rings
// themselves, in Go: no C call, no allocation, no lock. It takes libefa of
// rdma-core 59 or newer (60 to wait on it), and a device with one sub-queue in each completion
// queue. Everywhere else requests go through ibv_wr_* of libibverbs, one call
// into C a batch. [Endpoint.Path] tells which it is, and why.
//
// # Rules
//
//   - SRD is reliable and unordered: a small message may land before a large one
//     that was posted earlier. Count completions before telling the peer.
//   - An RDMA write or read needs an address handle of the initiator at its
//     target, or ends as [StatusUnknownPeer].
//   - Memory that a device of the kernel reaches is mapped or C memory, never
//     Go's heap. The embedded device takes any.
//   - One goroutine posts sends to an endpoint, one posts receives, one polls a
//     completion queue; they may be three. Making and closing may happen
//     anywhere, but not while another goroutine still posts or polls there.
//   - Close is explicit and may be repeated. An object that others stand on
//     refuses with [ErrBusy] and names them.
//   - A completion queue never overflows: an endpoint is refused whose requests
//     the queue has no room for. Writes with immediate that take no receive
//     ([SRDOptions].Unsolicited) are not counted: poll in time.
//
// Hosts are little-endian: amd64 and arm64.
package efa

import _ "github.com/peerdirect/peerdirect/internal/needs/linux"
