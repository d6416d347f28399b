//go:build lab

// Run inside a guest of the lab, where PEERDIRECT_DEVICE is rxe0 or siw0, or in
// two of them:
//
//	go test -c -tags lab -o DIR/exchange.test ./verbs/exchange
//	cd DIR && peerdirect lab run --link siw -- exchange.test -test.v -test.run Lab
//	cd DIR && peerdirect lab run --link siw --nodes 2 -- exchange.test -test.v -test.run LabTwoNodes
package exchange

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/nldev"
)

const pieceSize = 4096

// station is one side: a device with what queue pairs need.
type station struct {
	dev *verbs.Device
	pd  *verbs.PD
	cq  *verbs.CQ
	buf *verbs.Buffer
	mr  *verbs.MR
	qps []*verbs.RC
}

// newStation opens the device. At the end of the test everything is closed and
// nothing may be left of it in the process.
func newStation(t *testing.T, device string, qps int) *station {
	t.Helper()
	s := new(station)
	closeLater := func(c interface{ Close() error }, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	var err error
	s.dev, err = verbs.Open(device)
	closeLater(s.dev, err)
	s.pd, err = s.dev.AllocPD()
	closeLater(s.pd, err)
	s.cq, err = s.dev.CreateCQ(verbs.CQOptions{Depth: 1024})
	closeLater(s.cq, err)
	s.buf, err = verbs.NewBuffer(4*pieceSize, verbs.BufferOptions{})
	closeLater(s.buf, err)
	s.mr, err = s.pd.Register(s.buf.Bytes(), verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	closeLater(s.mr, err)
	for range qps {
		rc, err := s.pd.CreateRC(verbs.RCOptions{CQ: s.cq, MaxSend: 8, MaxRecv: 8})
		closeLater(rc, err)
		s.qps = append(s.qps, rc)
	}
	return s
}

// guest gives the device and the address of this guest.
func guest(t *testing.T) (device string, addr netip.Addr) {
	t.Helper()
	device, text := os.Getenv("PEERDIRECT_DEVICE"), os.Getenv("PEERDIRECT_ADDR")
	if device == "" || text == "" {
		t.Skip("needs a lab guest with a device on its link (PEERDIRECT_DEVICE, PEERDIRECT_ADDR): run make test-lab")
	}
	if out, err := exec.Command("modprobe", "rdma_ucm").CombinedOutput(); err != nil {
		t.Fatalf("modprobe rdma_ucm: %v: %s", err, out)
	}
	text, _, _ = strings.Cut(text, "/")
	return device, netip.MustParseAddr(text)
}

// nothingLeft checks at the end of a test that neither the kernel nor the
// process has anything of it left. Call it first.
func nothingLeft(t *testing.T, device string) {
	t.Helper()
	descriptors := func() map[string]string {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		open := make(map[string]string)
		for _, e := range list {
			// The directory's own descriptor is gone by now, and not counted.
			if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
				open[e.Name()] = to
			}
		}
		return open
	}
	noLeaks(t)
	before := descriptors()
	t.Cleanup(func() {
		if live := verbs.Live(); len(live) != 0 {
			t.Errorf("open in this process: %v", live)
		}
		// Before the netlink client opens, which has descriptors of its own. What
		// a cancelled operation left to the kernel is closed in the background.
		start := time.Now()
		first := descriptors()
		after := first
		for len(after) > len(before) && time.Since(start) < 5*time.Second {
			time.Sleep(time.Millisecond)
			after = descriptors()
		}
		switch {
		case len(after) > len(before):
			t.Errorf("descriptors before %v, after %v", before, after)
		case len(first) > len(before):
			t.Logf("closed in the background, within %v: had %v, then %v", time.Since(start), first, after)
		}
		c, err := nldev.Open()
		if err != nil {
			t.Fatal(err)
		}
		var left []string
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			left = left[:0]
			ids, err := c.CMIDs(context.Background(), nldev.Filter{Device: device})
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range ids {
				left = append(left, fmt.Sprintf("cm_id %+v", id))
			}
			qps, err := c.QPs(context.Background(), nldev.Filter{Device: device})
			if err != nil {
				t.Fatal(err)
			}
			for _, qp := range qps {
				if qp.Type == nldev.QPTypeRC {
					left = append(left, fmt.Sprintf("qp %+v", qp))
				}
			}
			if len(left) == 0 {
				break
			}
		}
		if len(left) != 0 {
			t.Errorf("left in the kernel: %s", strings.Join(left, "\n"))
		}
		c.Close()
	})
}

// talk is a conversation over the guest's own address.
func talk(t *testing.T, ctx context.Context, addr netip.Addr) (dialer, acceptor *Conn) {
	t.Helper()
	l, err := Listen(ctx, netip.AddrPortFrom(addr, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialer = must(Dial(ctx, l.Addr().String()))
	acceptor = must(l.Accept(ctx))
	t.Cleanup(func() {
		dialer.Close()
		acceptor.Close()
	})
	return dialer, acceptor
}

// connectBoth runs ConnectRC on both sides.
func connectBoth(ctx context.Context, a, b *Conn, x, y *station) (la, lb *Link, ea, eb error) {
	var wg sync.WaitGroup
	wg.Go(func() { la, ea = ConnectRC(ctx, a, x.qps, Options{}) })
	wg.Go(func() { lb, eb = ConnectRC(ctx, b, y.qps, Options{}) })
	wg.Wait()
	return
}

func (s *station) await(t *testing.T, ctx context.Context, n int) {
	t.Helper()
	out := make([]verbs.Completion, 16)
	for n > 0 {
		got, err := s.cq.Poll(out)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if err := out[i].Err(); err != nil {
				t.Fatal(err)
			}
		}
		n -= got
		if ctx.Err() != nil {
			t.Fatalf("%d completions are missing", n)
		}
		runtime.Gosched()
	}
}

// move writes and sends a piece from one side to the other over queue pair i.
func move(t *testing.T, ctx context.Context, from, to *station, i int) {
	t.Helper()
	src, dst := from.buf.Bytes(), to.buf.Bytes()
	for j := range src[:pieceSize] {
		src[j] = byte(j*31 + i)
	}
	recv := to.qps[i].RecvBatch()
	defer recv.Close()
	recv.Recv(to.mr.At(pieceSize, pieceSize), 1)
	if err := recv.Post(); err != nil {
		t.Fatal(err)
	}
	send := from.qps[i].Batch()
	defer send.Close()
	send.Write(from.mr.At(0, pieceSize), to.mr.Remote().At(2*pieceSize), 2)
	send.Send(from.mr.At(0, pieceSize), 3)
	if err := send.Post(); err != nil {
		t.Fatal(err)
	}
	from.await(t, ctx, 2)
	to.await(t, ctx, 1)
	for _, at := range []int{pieceSize, 2 * pieceSize} {
		if !bytes.Equal(src[:pieceSize], dst[at:at+pieceSize]) {
			t.Fatalf("queue pair %d: what arrived is not what was sent", i)
		}
	}
}

// closeQPs closes the queue pairs, then the link, in the order that it asks for.
func closeQPs(t *testing.T, s *station, link *Link) {
	t.Helper()
	for _, qp := range s.qps {
		if err := qp.Close(); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	}
}
