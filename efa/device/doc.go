// Package device is a software EFA device: what the efa driver of Linux, rdma-core's
// efa provider, and this project's own data path find behind their registers, queues
// and doorbells. The formats are those of efa/wire; nothing else of the project is
// used.
//
// A [Fabric] joins devices, and a [Link] the fabrics of two processes. A [Device] has
// control operations, which are what admin commands come down to, device memory for
// send rings (LLQ), doorbells (Ring, RingEQ) and a [Memory] that gives its DMA
// addresses a meaning: this process's, for a device embedded in a program, or a
// guest's. [Function] puts registers, the admin queue and PCI around a device.
//
// # The data path
//
// Each device has one goroutine, which sleeps when there is nothing to do. A doorbell
// is an atomic store and, if the goroutine sleeps, a wake-up. The goroutine fetches
// work entries, a few of each send queue in turn, checks them, and delivers them
// packet by packet: it copies from its own host's memory to the target's (or back,
// for a read), once, without a buffer between. Keys and ranges are looked up anew
// whenever it turns to a request, at both ends. Then it writes the target's
// completion, its own, the counters and the events; of each completion first the body
// and then, as an atomic store, the first word.
// [Stats] tell where the payload lay at either end, in the host's memory or in an
// accelerator's, if the [Memory] is a [Placer].
//
// Meanwhile it holds both devices and both memories shared, for at most 128 packets or
// half a mebibyte. Control operations hold their device alone, so they take effect
// between two such turns and are final when they return.
//
// # What is modelled
//
// SRD: reliable, and out of order on purpose. Up to 64 messages of a device are under
// way at once; which of them sends its next packets is drawn, and a message's packets
// are not sent in the order of their addresses. Messages to peers that do not answer,
// or have no receive posted, wait aside and hold nobody up.
//
// Errors: what a request did wrong at home (operation, handle, key, length) or at the
// target (queue pair, key, peer without handle, receive too short, no receive, missing
// capability) gives the status that efa_io_comp_status names. It leaves the queue pair
// in RTS, as EFA does. A queue key that differs counts as a wrong queue pair. Silence
// gives UNREACHABLE if the peer never answered through this address handle, else
// UNRESPONSIVE, after [Options].PeerTimeout. A SEND has at most the MTU; reads and
// writes have max_rdma_size.
//
// A write with immediate consumes its receive when all its bytes are placed: if none
// is posted by then, only the notice is tried again.
//
// UD: one packet, 40 bytes of route header before the payload, loss without notice.
//
// ERR flushes what is in flight, in the send ring, and in the receive ring; RESET and
// destruction drop it silently. A completion queue with more completions than entries
// overwrites the oldest, since the device is not told reliably what was read: it is the
// user's part, as with rdma-core, not to post more than the queue holds.
//
// Faults ([Faults], of a device or of a fabric): loss with retransmission, duplicates,
// delay, lost answers, missing receives, wrong keys, resets of the connection, link
// down, silence; also [Device.Fail] and [Device.Reset]. Line rate and latency per
// device, if asked for.
//
// # What is not
//
// Congestion: devices share no links, only their own line rates. Paths: a packet has
// no route. Processing hints and service levels are taken and have no effect. The
// immediate of an unsignaled request, physical-mode rings (virt flags), memory windows
// and fast registration do not exist. Timing is that of timers: some tens of
// microseconds.
package device
