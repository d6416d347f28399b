//go:build lab

package doctor

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/internal/sysroot"
	"github.com/peerdirect/peerdirect/verbs"
)

// live is the guest with its device.
func live(t *testing.T) (s *System, device string) {
	t.Helper()
	device = os.Getenv("PEERDIRECT_DEVICE")
	if device == "" {
		t.Skip("needs a lab guest with an RDMA device: run make test-lab")
	}
	root, err := sysroot.Dir("/")
	if err != nil {
		t.Fatal(err)
	}
	return NewSystem(root, true), device
}

// unanswered connects two queue pairs of a device and sends to the one that posts no
// buffer, again and again until the test ends: the receiver refuses each time.
func unanswered(t *testing.T, device string) {
	t.Helper()
	dev, err := verbs.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pd.Close() })
	cq, err := dev.CreateCQ(verbs.CQOptions{Depth: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cq.Close() })
	var qps [2]*verbs.RC
	var ends [2]verbs.Endpoint
	for i := range qps {
		if qps[i], err = pd.CreateRC(verbs.QPOptions{CQ: cq, MaxSend: 4}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { qps[i].Close() })
		if ends[i], err = qps[i].Endpoint(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range qps {
		if err := qps[i].Connect(ends[1-i], verbs.ConnectOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	mr, err := pd.Register(make([]byte, 4096), verbs.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mr.Close() })
	batch := qps[0].Batch()
	t.Cleanup(func() { batch.Close() })
	batch.Send(mr.At(0, 64), 1)
	if err := batch.Post(); err != nil {
		t.Fatal(err)
	}
}

// rxe counts what is refused for want of a buffer; the doctor sees the counter rise,
// names it, and says what it means.
func TestCountersRise(t *testing.T) {
	s, device := live(t)
	if !strings.HasPrefix(device, "rxe") {
		t.Skip("needs the lab's rxe, whose counters tell: make test-lab runs it as 7.3/rxe")
	}
	s.Devices = []string{device}
	for _, f := range checkCounters(t.Context(), s) {
		if f.Verdict == Warn {
			t.Errorf("with nobody on the device: %s", told([]Finding{f}))
		}
	}
	unanswered(t, device)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		f := checkCounters(ctx, s)
		if ctx.Err() != nil {
			t.Fatalf("no counter rises: %+v", f)
		}
		if f[0].Verdict == Warn {
			if !strings.Contains(f[0].Summary, "rnr") || !strings.Contains(f[0].Remedy, meansReady) { // kernel 6.1 counts a retry besides
				t.Errorf("%+v", f[0])
			}
			return
		}
	}
}

// The path MTU that a RoCE port takes of its interface's MTU is the one that the
// doctor computes where only files can be read.
func TestPathMTUOfAnInterface(t *testing.T) {
	s, device := live(t)
	if !strings.HasPrefix(device, "rxe") {
		t.Skip("needs the lab's rxe: make test-lab runs it as 7.3/rxe")
	}
	s.Devices = []string{device}
	p := s.rdmaDevices(t.Context())[0].Ports[0]
	if p.Netdev == nil || p.ActiveMTU == nil {
		t.Fatalf("%+v", p)
	}
	text, err := s.text("sys/class/net/" + *p.Netdev + "/mtu")
	if err != nil {
		t.Fatal(err)
	}
	var mtu int
	if _, err := fmt.Sscan(text, &mtu); err != nil {
		t.Fatal(err)
	}
	if got := pathMTU(mtu); got != *p.ActiveMTU {
		t.Errorf("an interface with MTU %d: we say %d, the device %d", mtu, got, *p.ActiveMTU)
	}
}
