// Package exchange is the conversation beside the data: two programs find each
// other over TCP, agree that they mean the same thing, connect their queue pairs
// and keep an eye on each other.
//
//	l, err := exchange.Listen(ctx, "192.0.2.1:18515")     // one side
//	conn, err := l.Accept(ctx)
//
//	conn, err := exchange.Dial(ctx, "192.0.2.1:18515")    // the other
//
//	peer, err := conn.Greet(ctx, exchange.Hello{Program: "peerdirect", Purpose: "perf", Options: options})
//	link, err := exchange.ConnectRC(ctx, conn, qps, exchange.Options{})
//	defer link.Close()                                    // after the queue pairs
//
//	err = conn.Send(ctx, typeResult, result)              // types from TypeUser on
//	err = conn.Receive(ctx, typeResult, &result)
//
// A program that fails says why before it goes (Conn.Fail), so that both sides
// end with the same error. A peer that goes without a word is noticed when TCP
// notices: at once where its process ended, after DefaultPeerTimeout where the
// machine or the network is lost. Conn.Watch turns either into a cancelled context.
//
// # Format
//
// A frame is a header of 16 bytes and a payload of JSON:
//
//	0   3  "PDX"
//	3   1  version of this format, 1
//	4   2  type of the frame
//	6   2  flags, 0
//	8   4  length of the payload, at most 1 MiB
//	12  4  number of the frame in its direction, from 0
//
// Integers are big-endian. The first four bytes never change with the version,
// so that programs of different versions can tell each other so.
//
// # Trust
//
// Nothing here authenticates or encrypts: whoever reaches the port can talk to
// the program, which is why Listen binds to the loopback address unless told
// otherwise. Whatever a peer sends is checked before it is used.
//
// # Use
//
// A Conn's Send and Receive may be called by two goroutines; Close or Fail ends it
// once. It needs no privilege; what it needs to build is verbs'. Errors are *Error of
// a class, or a *RemoteError that has the peer's.
package exchange
