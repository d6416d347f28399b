package exchange

import (
	"io"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultPeerTimeout is how long a silent loss of the peer or of the network
// goes unnoticed, unless SetPeerTimeout says otherwise.
const DefaultPeerTimeout = 5 * time.Second

// SetPeerTimeout sets how long a silent loss of the peer or of the network goes
// unnoticed; 0 is DefaultPeerTimeout. TCP probes an idle peer after a second at
// the earliest and needs two to give it up, so that less than 3 s counts only
// while something is being sent.
func (c *Conn) SetPeerTimeout(d time.Duration) {
	if d <= 0 {
		d = DefaultPeerTimeout
	}
	c.mu.Lock()
	c.peerTimeout = d
	c.mu.Unlock()
	tcp, ok := c.nc.(*net.TCPConn)
	if !ok {
		return
	}
	// Without the options the conversation works as well: no failure here is one.
	probe := max(d/5, time.Second)
	tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 2 * probe, Interval: probe, Count: 3})
	if raw, err := tcp.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
		})
	}
}

// Traffic is how many bytes the conversation has handed to its connection and
// taken from it, headers of frames included. Nothing else uses the connection,
// so the counts bound what can have gone through it.
func (c *Conn) Traffic() (sent, received uint64) { return c.out.Load(), c.in.n.Load() }

// counted counts what is read.
type counted struct {
	io.Reader
	n atomic.Uint64
}

func (r *counted) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.n.Add(uint64(n))
	return n, err
}
