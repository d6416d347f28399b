package device

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// linkTemplates are frames that make sense: one of each kind.
func linkTemplates(e *endpoint, dst, ro region) []linkFrame {
	f := func(op wire.IOOp, flags frameFlags, n uint32, r region) linkFrame {
		return linkFrame{
			kind: frameRequest, op: op, flags: flags | frameLast, total: n, n: n, srcQP: 7, destQP: e.info.QPNum, qkey: e.qkey,
			imm: 5, remote: wire.RemoteBuf{Addr: r.addr, RKey: r.RKey},
		}
	}
	long := f(wire.IORDMAWrite, 0, 1000, dst)
	long.total, long.flags = 3000, 0
	notice := f(wire.IORDMAWrite, frameNotice|frameImm, 0, dst)
	notice.total, notice.offset = 3000, 3000
	return []linkFrame{
		f(wire.IOSend, frameImm, 100, dst), f(wire.IORDMAWrite, frameImm, 3000, dst), f(wire.IORDMARead, 0, 3000, ro),
		long, notice, f(wire.IORDMAWrite, 0, 100, ro), f(wire.IOSend, frameDatagram, 100, dst), {kind: frameReply},
	}
}

// FuzzLink: whatever a peer says through a link, only what it may write is written,
// the link ends or goes on, and the device still works. The input changes frames that
// make sense: each 64 bytes are laid over a header by exclusive or, the last ones over
// the greeting.
func FuzzLink(f *testing.F) {
	const frames = 12
	r := newFuzzRig(f)
	gid := wire.GID{15: 9}
	must(r.b.d.CreateAH(r.b.pd, gid))(f)
	templates := linkTemplates(r.b, r.dst, r.ro)
	f.Add([]byte{})
	for i := range 64 {
		b := make([]byte, 64*frames)
		for j := range frames {
			b[64*j+i] = []byte{1, 0x80, 0xff}[j%3]
		}
		f.Add(b)
	}
	hello := make([]byte, 64*(frames+1))
	hello[64*frames+12] = 1
	f.Add(hello)
	f.Fuzz(func(t *testing.T, in []byte) {
		r.use(t)
		for i := range 8 {
			r.b.recv(uint16(i), r.dst, i*100, 100)
		}
		var say []byte
		for i := range frames {
			h := templates[i%len(templates)]
			h.seq, h.slot = uint64(i+1), uint16(i)
			at := len(say)
			say = append(say, make([]byte, linkHeader)...)
			h.encode(say[at:])
			n := min(len(in), linkHeader)
			for j, x := range in[:n] {
				say[at+j] ^= x
			}
			in = in[n:]
			var sent linkFrame
			if sent.decode(say[at:], 512) == nil { // so that the next frame is where it is looked for
				say = append(say, bytes.Repeat([]byte{byte(i)}, int(sent.payload()))...)
			}
		}
		hello := greeting(gid, func(b []byte) {
			b[12], b[13] = 0, 2 // the rig's MTU, 512
			for i, x := range in[:min(len(in), len(b))] {
				b[i] ^= x
			}
		})
		a, b := net.Pipe()
		go io.Copy(io.Discard, b)
		go func() {
			b.Write(hello)
			b.Write(say)
			b.Close()
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		l, err := r.f.Link(ctx, a, r.b.d)
		if err == nil {
			select {
			case <-l.Done():
			case <-time.After(5 * time.Second):
				t.Fatal("the link has not ended")
			}
			l.Close()
		}
		r.settle(t)
		r.works(t)
	})
}

// TestLinkRefuses: breaches of protocol end the link and touch nothing.
func TestLinkRefuses(t *testing.T) {
	f := NewFabric(FabricOptions{})
	t.Cleanup(f.Close)
	e := newHost(t, f, Options{}).endpoint(epOptions{})
	gid := wire.GID{15: 9}
	must(e.d.CreateAH(e.pd, gid))(t)
	dst, ro := e.region(8192, allAccess), e.region(8192, wire.AccessRemoteRead)
	good := linkTemplates(e, dst, ro)
	write := good[5] // to where it may not
	for name, change := range map[string]func(*linkFrame){
		"kind":         func(h *linkFrame) { h.kind = 3 },
		"operation":    func(h *linkFrame) { h.op = wire.IORDMAWrite + 1 },
		"slot":         func(h *linkFrame) { h.slot = linkSlots },
		"device":       func(h *linkFrame) { h.dst = 1 },
		"sequence":     func(h *linkFrame) { h.seq = 2 },
		"huge":         func(h *linkFrame) { h.n, h.total = linkPiece+1, linkPiece+1 },
		"past its end": func(h *linkFrame) { h.offset = ^uint32(0) },
		"long SEND":    func(h *linkFrame) { h.op, h.n, h.total = wire.IOSend, DefaultMTU+1, DefaultMTU+1 },
		"reply":        func(h *linkFrame) { h.kind, h.n = frameReply, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := streams(t)
			b.Write(greeting(gid, nil))
			l, err := f.Link(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			h := write
			h.seq = 1
			change(&h)
			frame := make([]byte, linkHeader+h.n)
			h.encode(frame)
			b.Write(frame)
			select {
			case <-l.Done():
			case <-time.After(5 * time.Second):
				t.Fatal("the link goes on")
			}
			if !zero(dst.b) || !zero(ro.b) {
				t.Error("memory was written")
			}
		})
	}
	// What is well said but not allowed is answered, as to a local peer.
	a, b := streams(t)
	b.Write(greeting(gid, nil))
	l, err := f.Link(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	write.seq = 1
	frame := make([]byte, linkHeader+write.n)
	write.encode(frame)
	b.Write(frame)
	b.SetReadDeadline(time.Now().Add(5 * time.Second))
	got := make([]byte, linkGreeting+linkMember+linkHeader)
	if _, err := io.ReadFull(b, got); err != nil {
		t.Fatal(err)
	}
	var h linkFrame
	if err := h.decode(got[linkGreeting+linkMember:], DefaultMTU); err != nil || h.status != wire.CompRemoteBadAddress || !zero(ro.b) {
		t.Errorf("%v: answered %v", err, h.status)
	}
}
