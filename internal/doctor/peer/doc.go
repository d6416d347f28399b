// Package peer tests the path between two nodes step by step, and names the first step
// that fails, by evidence of both sides, with a remedy.
//
//	l, err := peer.Listen(ctx, "192.0.2.1:18633", peer.Options{Rail: nic, Credentials: token})
//	err = l.Serve(ctx, func(r *peer.Result, err error) { … })             // one machine
//
//	result, err := peer.Check(ctx, "192.0.2.1:18633", peer.Options{Rail: nic, Credentials: token})
//
// # Steps
//
// They are taken in this order ([Names]); none is tried behind one that failed.
//
//	device       this side's NIC opens, memory is registered
//	reach        the name has an address, and TCP comes to the listener's port
//	credentials  both sides prove themselves (package transfer/control)
//	match        both speak this protocol, and their NICs can be connected
//	mtu          packets as large as the NICs send pass between their addresses
//	keys         both offer queue pairs, and say where their memory is and by what keys
//	connect      the queue pairs are connected
//	small-write  64 bytes
//	large-write  from less than a packet to MiB, byte by byte
//	order        what the transport promises of a notice behind writes
//	read         the peer's memory is read, where the transport has reads
//	back         the writes and their order in the other direction
//
// # What goes over the wire
//
// After the handshake of package transfer/control every message is JSON, of one type.
// A hello of each side, the dialler's first, has the version of this protocol and what
// the sides must know of each other's NIC. Embedded devices of two processes are linked
// then (package internal/fabriclink). Then, for each step from mtu on,
//
//	dialler                       listener
//	begin: step                ->
//	word                      <-> word        what the step needs, in either direction
//	                           <- done: what the listener saw; with an error, if it failed
//
// and at last bye. Who fails says so with the error, its class and evidence, at once;
// the other answers with what it saw, and both leave. Everything else goes over the
// rails. Probes of the MTU are UDP datagrams between the NICs' addresses, with a token
// that went by the control connection; see probe.
//
// A step has its own deadline at each side. The end of the control connection or of the
// caller's context ends whatever a side waits for.
package peer
