package exchange

import (
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The options that make TCP notice a peer that is gone without a word.
func TestPeerTimeout(t *testing.T) {
	c, _ := raw(t)
	rc := must(c.nc.(*net.TCPConn).SyscallConn())
	for _, step := range []struct {
		set                         time.Duration
		idle, interval, userTimeout int
	}{
		{0, 2, 1, 5000}, // as New leaves it
		{20 * time.Second, 8, 4, 20_000},
		{500 * time.Millisecond, 2, 1, 500},
		{-1, 2, 1, 5000},
	} {
		if step.set != 0 {
			c.SetPeerTimeout(step.set)
		}
		rc.Control(func(fd uintptr) {
			for name, o := range map[string]struct{ level, option, want int }{
				"SO_KEEPALIVE":     {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
				"TCP_KEEPIDLE":     {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, step.idle},
				"TCP_KEEPINTVL":    {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, step.interval},
				"TCP_KEEPCNT":      {unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3},
				"TCP_USER_TIMEOUT": {unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, step.userTimeout},
			} {
				if got, err := unix.GetsockoptInt(int(fd), o.level, o.option); err != nil || got != o.want {
					t.Errorf("%v: %s is %d, want %d (%v)", step.set, name, got, o.want, err)
				}
			}
		})
	}
	// What the user is told is what was set.
	c.SetPeerTimeout(20 * time.Second)
	c.end(syscall.ETIMEDOUT)
	wants(t, c.Err(), ErrGone, "no sign of life from the peer for 20s")
}

// Every byte counts once on each side.
func TestTraffic(t *testing.T) {
	a, b := pair(t)
	ctx := within(t, 10*time.Second)
	const text = "0123456789"
	for range 3 {
		if err := a.Send(ctx, TypeUser, text); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if err := b.Receive(ctx, TypeUser, nil); err != nil {
			t.Fatal(err)
		}
	}
	const want = uint64(3 * (headerSize + len(text) + 2)) // with JSON's quotes
	if sent, received := a.Traffic(); sent != want || received != 0 {
		t.Errorf("the sender counts %d and %d, want %d and 0", sent, received, want)
	}
	if sent, received := b.Traffic(); sent != 0 || received != want {
		t.Errorf("the receiver counts %d and %d, want 0 and %d", sent, received, want)
	}
}
