// Package control is the conversation between engines beside the data: small
// messages over TCP, encrypted, between two sides that have proved to each other
// who they are.
//
//	credentials, err := control.CertificateFiles("node-a.pem", "node-a.key", "authority.pem")
//	credentials, err := control.Token(secret)                  // or, for a lab
//
//	l, err := control.Listen(ctx, "192.0.2.1:18631", credentials, control.Options{})
//	conn, err := l.Accept(ctx)                                 // one side
//
//	conn, err := control.Dial(ctx, "192.0.2.1:18631", credentials, control.Options{Peer: "node-a"})
//
//	err = conn.Send(control.TypeUser, payload)                 // never waits for the peer
//	t, payload, err := conn.Receive(ctx)                       // payload until the next Receive
//	err = conn.Close()                                         // the peer sees ErrLeft, not ErrGone
//
// # Trust
//
// Everything goes over TLS 1.3. Nobody is talked to before it has proved itself,
// in one of two ways; both sides need the same one:
//
//   - Certificates. Each side has a certificate of the same authority, see Issue
//     and the command peerdirect cert. The dialler checks the listener's before
//     it shows its own. A certificate's name is its first DNS name, or its first
//     URI if it has none; the common name of the subject counts for nothing. It
//     is what Conn.Peer gives. Whoever has a certificate of the authority is let
//     in: what a name may do is the caller's to decide. Options.Peer makes Dial
//     insist on one name; without it any member can stand in for any other.
//   - A token that both sides know. The listener's certificate is made in memory
//     and proves nothing; instead each side sends an HMAC-SHA-256, keyed by the
//     token, of its role and of keying material that both ends of this TLS
//     connection export. A proof is therefore worth nothing on another
//     connection, and one who terminates TLS in between is found out. The
//     dialler goes first, so a listener gives nothing to strangers. One who
//     answers in the listener's place gets a proof to try guesses on: tokens must
//     be random, not chosen. All who know the token are the same peer, "token".
//
// One who fails is told nothing beyond TLS's own alert: the connection is
// closed. The listener's owner finds the cause in Listener.Stats. What a stranger
// can learn is which of the two ways a listener takes and, with certificates,
// the listener's certificate, for TLS shows it first.
//
// Certificates are checked when a connection is made. One that expires later
// ends nothing, and there is no revocation: make a new authority.
//
// # Format
//
// After the handshake of TLS, with the application protocol
// "peerdirect-control-certificate" or "peerdirect-control-token", come with a
// token the proofs, of 32 bytes each, and then frames in both directions:
//
//	0  4  length of the payload, at most 1 MiB
//	4  2  type
//	6  2  reserved, 0
//	8     payload
//
// Integers are big-endian. Types below TypeUser are this package's:
//
//	0  hello, the first frame of each side:
//	   0  4  "PDCT"
//	   4  2  version of this format, 1
//	   6  2  reserved, 0
//	   8  4  lease in milliseconds: how long this side bears silence
//	1  ping, empty: nothing else was sent for a while
//	2  bye, empty, the last frame: this side leaves
//
// Magic and version stay where they are in every version, so that programs of
// different versions can tell each other apart.
//
// # Life and death
//
// Each side sends something at least every Options.Heartbeat, and often enough
// for the lease that the peer's hello named. A side that has read nothing for its
// lease gives the peer up, ErrGone. Silence is measured on the monotonic clock
// from data to data: a peer that was stopped is found although its kernel still
// acknowledges, and one that runs again finds that it was away, whatever waits in
// its socket. While Options.Queue bytes lie unreceived nothing is read, and the
// peer's silence is not held against it. A peer that does not read makes the queue
// to it grow instead, until it is full, or its connection takes no bytes for twice
// the lease: ErrSlow.
package control
