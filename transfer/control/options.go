package control

import (
	"net"
	"time"
)

// Options are a listener's or a dialler's. Zero fields take the default in the
// comment.
type Options struct {
	// Peer is the name that Dial's peer must have in its certificate; default any.
	Peer string
	// Window is how long Dial tries again while nobody listens there; default 5 s.
	Window time.Duration

	// Handshake is how long the other side may take to prove itself; default 5 s.
	Handshake time.Duration
	// HalfOpen is how many connections may be proving themselves to a listener at
	// once, and how many that have may wait for Accept; default 64.
	HalfOpen int

	// Heartbeat is after how long without a message a ping is sent; default 1 s,
	// less where the peer's lease asks for it.
	Heartbeat time.Duration
	// Lease is how long the peer may be silent before it is given up; default 5 s,
	// between 10 ms and an hour.
	Lease time.Duration
	// Queue bounds in each direction the bytes of messages, with 8 for each, that
	// wait: to be written, and to be received. Default 4 MiB. One message is taken
	// into an empty queue whatever its size.
	Queue int
}

const (
	minLease = 10 * time.Millisecond
	maxLease = time.Hour
	// pingsPerLease is how many pings fall into the lease of a peer that bears
	// less silence than this side's heartbeat: two may be late.
	pingsPerLease = 3
)

func (o Options) withDefaults() (Options, error) {
	for _, d := range []struct {
		name      string
		value     *time.Duration
		byDefault time.Duration
	}{
		{"Window", &o.Window, 5 * time.Second},
		{"Handshake", &o.Handshake, 5 * time.Second},
		{"Heartbeat", &o.Heartbeat, time.Second},
		{"Lease", &o.Lease, 5 * time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.byDefault
		}
		if *d.value < 0 {
			return o, why(ErrUsage, "%s of %v: it must not be negative", d.name, *d.value)
		}
	}
	for _, n := range []struct {
		name      string
		value     *int
		byDefault int
	}{
		{"HalfOpen", &o.HalfOpen, 64},
		{"Queue", &o.Queue, 4 << 20},
	} {
		if *n.value == 0 {
			*n.value = n.byDefault
		}
		if *n.value < 0 {
			return o, why(ErrUsage, "%s of %d: it must not be negative", n.name, *n.value)
		}
	}
	if o.Lease < minLease || o.Lease > maxLease {
		return o, why(ErrUsage, "a lease of %v: it must be between %v and %v", o.Lease, minLease, maxLease)
	}
	return o, nil
}

// DefaultPort is the TCP port where an engine's control listener is by custom.
const DefaultPort = "18631"

// hostPort completes an address: without a host it is this machine's alone.
func hostPort(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", why(ErrUsage, "an address is HOST:PORT, [IPv6]:PORT, or :PORT for the loopback address")
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}
