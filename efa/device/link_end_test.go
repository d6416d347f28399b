package device

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// newLinkedPair is newPair with the ends on two fabrics.
func newLinkedPair(t testing.TB, ao, bo Options, eo epOptions) *pair {
	t.Helper()
	acrossLink = true
	defer func() { acrossLink = false }()
	return newPair(t, FabricOptions{}, ao, bo, eo)
}

// TestLinkFaults: what befalls a message is drawn on its sender's side, and a doubled
// piece is not placed twice.
func TestLinkFaults(t *testing.T) {
	for name, x := range map[string]struct {
		plan  FaultPlan
		s     wire.CompStatus
		count func(FaultCounts) uint64
	}{
		"loss":        {FaultPlan{Loss: 0.5}, wire.CompOK, func(c FaultCounts) uint64 { return c.Loss }},
		"duplicate":   {FaultPlan{Duplicate: 1}, wire.CompOK, func(c FaultCounts) uint64 { return c.Duplicate }},
		"delay":       {FaultPlan{Delay: 0.5}, wire.CompOK, func(c FaultCounts) uint64 { return c.Delay }},
		"answer lost": {FaultPlan{AckLoss: 1}, wire.CompOK, func(c FaultCounts) uint64 { return c.AckLoss }},
		"RNR":         {FaultPlan{RNR: 1}, wire.CompOK, func(c FaultCounts) uint64 { return c.RNR }},
		"key":         {FaultPlan{CorruptKey: 1}, wire.CompRemoteBadAddress, func(c FaultCounts) uint64 { return c.CorruptKey }},
		"abort":       {FaultPlan{Abort: 1}, wire.CompRemoteAbort, func(c FaultCounts) uint64 { return c.Abort }},
	} {
		t.Run(name, func(t *testing.T) {
			pr := newLinkedPair(t, Options{}, Options{}, epOptions{})
			const size, pieces = 10*linkPiece + 1, 11
			src, dst := pr.a.region(size, 0), pr.b.region(size, allAccess)
			fill(src.b, 1)
			x.plan.Seed = 42
			for i, f := range []*Faults{pr.f.Faults(), pr.a.d.Faults()} {
				f.Set(x.plan)
				clear(dst.b)
				pr.b.recv(1, dst, 0, 16)
				pr.a.post(imm(pr.ab.rdma(wire.IORDMAWrite, uint64(i), src.at(0, size), dst.addr, dst.RKey), 5))
				pr.a.scq.expect(uint16(i), x.s)
				if x.s == wire.CompOK {
					pr.b.scq.expect(1, wire.CompOK)
				}
				if ok := string(dst.b) == string(src.b); ok != (x.s == wire.CompOK) {
					t.Errorf("bytes arrived: %v", ok)
				}
				if x.count(f.Counts()) == 0 || x.count(f.Counts()) != f.Counts().Total() {
					t.Errorf("counts %+v", f.Counts())
				}
				f.Clear()
			}
			pr.b.scq.quiet(3 * time.Millisecond) // each notice came once
			if name == "duplicate" {
				eventually(t, "duplicates are counted", func() bool { return pr.b.d.Stats().Duplicates == 2*pieces })
			}
		})
	}
}

// TestLinkEnds: a link that either side closes, or whose stream breaks, ends the
// requests under way, each once, and leaves nothing; another may follow it.
func TestLinkEnds(t *testing.T) {
	for name, end := range map[string]func(*pair){
		"here":   func(p *pair) { p.link[0].Close() },
		"there":  func(p *pair) { p.link[1].Close() },
		"stream": func(p *pair) { p.link[1].conn.Conn.Close() },
		"fabric": func(p *pair) { p.b.d.fabric.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			pr := newLinkedPair(t, Options{PeerTimeout: 300 * time.Millisecond}, Options{}, epOptions{depth: 128})
			src, dst := pr.a.region(1<<20, 0), pr.b.region(1<<20, allAccess)
			pr.a.post(pr.ab.rdma(wire.IORDMAWrite, 200, src.at(0, 100), dst.addr, dst.RKey))
			pr.a.scq.expect(200, wire.CompOK)
			for i := range 100 { // more than a link carries at once
				pr.a.put(pr.ab.rdma(wire.IORDMAWrite, uint64(i), src.at(0, 1<<20), dst.addr, dst.RKey))
			}
			pr.a.ring()
			end(pr)
			var done [100]int
			for range 100 {
				c := pr.a.scq.next().Base()
				done[c.ReqID()]++
				if s := c.Status(); s != wire.CompOK && s != wire.CompLocalUnresponsive {
					t.Errorf("request %d: %v", c.ReqID(), s)
				}
			}
			for i, n := range done {
				if n != 1 {
					t.Errorf("request %d completed %d times", i, n)
				}
			}
			pr.a.scq.quiet(2 * time.Millisecond)
			for i, l := range pr.link {
				select {
				case <-l.Done():
				case <-time.After(5 * time.Second):
					t.Fatalf("link %d has not ended", i)
				}
				if l.Err() == nil {
					t.Errorf("link %d ended without a reason", i)
				}
				l.Close()
				l.Close()
			}
			if name != "fabric" {
				x, y := streams(t)
				linkFabrics(t, pr.f, pr.b.d.fabric, x, y)
				pr.a.post(pr.ab.rdma(wire.IORDMAWrite, 1, src.at(0, 1<<20), dst.addr, dst.RKey))
				pr.a.scq.expect(1, wire.CompOK)
			}
			pr.f.Close()
			pr.b.d.fabric.Close()
			eventually(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= before })
		})
	}
}

// greeting is what a side says first, of one device.
func greeting(gid wire.GID, change func([]byte)) []byte {
	b := make([]byte, linkGreeting+linkMember)
	copy(b, linkMagic)
	binary.LittleEndian.PutUint16(b[8:], linkVersion)
	binary.LittleEndian.PutUint16(b[10:], 1)
	binary.LittleEndian.PutUint32(b[12:], DefaultMTU)
	copy(b[linkGreeting:], gid[:])
	if change != nil {
		change(b)
	}
	return b
}

func TestLinkGreeting(t *testing.T) {
	f := NewFabric(FabricOptions{})
	defer f.Close()
	h := newHost(t, f, Options{})
	gid := wire.GID{15: 9}
	for name, x := range map[string]struct {
		say  []byte
		want string
	}{
		"nothing":   {nil, "deadline"},
		"half":      {greeting(gid, nil)[:20], "deadline"},
		"other":     {[]byte("GET / HTTP/1.1\r\n\r\n"), "GET"},
		"version":   {greeting(gid, func(b []byte) { b[8] = 2 }), "version is 2"},
		"MTU":       {greeting(gid, func(b []byte) { b[12]++ }), "MTU"},
		"many":      {greeting(gid, func(b []byte) { b[11] = 0xff }), "the most is 32"},
		"latency":   {greeting(gid, func(b []byte) { b[len(b)-1] = 0x80 }), "latency"},
		"same GID":  {greeting(h.d.GID(), nil), "both sides"},
		"no stream": {[]byte{}, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := streams(t)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if x.want == "deadline" {
				ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
			}
			b.Write(x.say)
			if x.want == "EOF" {
				b.(*net.TCPConn).CloseWrite()
			}
			l, err := f.Link(ctx, a)
			if l != nil || err == nil || !strings.Contains(err.Error(), x.want) && !(x.want == "deadline" && errors.Is(err, os.ErrDeadlineExceeded)) {
				t.Errorf("%v", err)
			}
			b.SetReadDeadline(time.Now().Add(5 * time.Second))
			if _, err := io.Copy(io.Discard, b); errors.Is(err, context.DeadlineExceeded) {
				t.Error("the stream was not closed")
			}
		})
	}
}

// TestLinkToNobody: a peer that greets and then reads nothing, and one that reads and
// never answers.
func TestLinkToNobody(t *testing.T) {
	for name, reads := range map[string]bool{"deaf": false, "mute": true} {
		t.Run(name, func(t *testing.T) {
			f := NewFabric(FabricOptions{})
			t.Cleanup(f.Close)
			e := newHost(t, f, Options{PeerTimeout: 100 * time.Millisecond}).endpoint(epOptions{depth: 128})
			a, b := streams(t)
			gid := wire.GID{15: 9}
			b.Write(greeting(gid, nil))
			l, err := f.Link(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			if reads {
				go io.Copy(io.Discard, b)
			}
			to := peer{must(e.d.CreateAH(e.pd, gid))(t), 1, 2}
			src := e.region(1<<20, allAccess)
			for i := range 100 {
				e.put(to.rdma(wire.IORDMAWrite, uint64(i), src.at(0, 1<<20), 0x1000, 1))
			}
			e.ring()
			for range 100 {
				if s := e.scq.next().Base().Status(); s != wire.CompLocalUnreachable {
					t.Fatalf("status %v", s)
				}
			}
			start := time.Now()
			l.Close()
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("closing took %v", took)
			}
		})
	}
}
