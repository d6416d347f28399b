package efa

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/efa/wire"
)

// profiles are the shapes of device that the data path has to drive.
var profiles = []struct {
	name string
	dev  device.Options
	ep   SRDOptions
}{
	{"64-bit ids", device.Options{}, SRDOptions{}},
	{"16-bit ids", device.Options{Caps: wire.CapRDMARead | wire.CapRDMAWrite | wire.CapRNRRetry}, SRDOptions{}},
	{"wide entries", device.Options{}, SRDOptions{MaxInline: 80, InlineWrite: true}},
	{"batches of 2", device.Options{MaxBatch: 2}, SRDOptions{}},
	{"wide entries, batches of 1", device.Options{MaxBatch: 2}, SRDOptions{MaxInline: 64}},
}

func TestOperationsMoveTheirBytes(t *testing.T) {
	for _, p := range profiles {
		t.Run(p.name, func(t *testing.T) {
			o := p.ep
			o.MaxSend, o.MaxRecv, o.MaxSendSGE = 16, 16, 2
			s := embeddedPairOf(t, 1<<20, device.FabricOptions{Seed: 3}, p.dev, [2]SRDOptions{o, o})
			if got := s[0].ep.Path(); !got.Direct || got.String() != "direct" {
				t.Fatalf("path %v", got)
			}
			operations(t, s, o)
		})
	}
}

// operations does each operation that the devices have once, and looks at the
// bytes and at both sides' completions.
func operations(t *testing.T, s [2]*side, o SRDOptions) {
	a, z := s[0], s[1]
	caps := a.dev.Attr().Caps
	fill(a.mem, 1)
	const half = 1 << 19
	if caps&CapWrite != 0 {
		t.Run("write", func(t *testing.T) {
			a.b.Write(a.peer, a.mr.At(0, half), z.remote().At(100), 1<<40|7)
			post(t, a.b)
			c := complete(t, a.ep, 1)[0]
			if c.Err() != nil || c.ID != 1<<40|7 || c.Op != OpWrite || c.QPN != a.ep.QPN() {
				t.Fatalf("%+v", c)
			}
			if !bytes.Equal(z.mem[100:100+half], a.mem[:half]) {
				t.Error("the bytes differ")
			}
			nothing(t, z)
		})
		t.Run("write with immediate", func(t *testing.T) {
			z.receive(t, 1, 0, 1, 50)
			a.b.WriteImm(a.peer, a.mr.At(5, 70000), z.remote().At(half), 0xcafe, 2)
			post(t, a.b)
			if c := complete(t, a.ep, 1)[0]; c.Err() != nil || c.ID != 2 || c.Op != OpWrite {
				t.Fatalf("%+v", c)
			}
			c := complete(t, z.ep, 1)[0]
			if c.Err() != nil || c.ID != 50 || c.Op != OpRecvWrite || c.Flags != WithImm || c.Imm != 0xcafe || c.Bytes != 70000 || c.SrcQPN != a.ep.QPN() {
				t.Fatalf("%+v", c)
			}
			if c.AH != z.peer.AH().Number() {
				t.Errorf("from handle %d, want %d", c.AH, z.peer.AH().Number())
			}
			if !bytes.Equal(z.mem[half:half+70000], a.mem[5:70005]) {
				t.Error("the bytes differ")
			}
		})
		t.Run("write of nothing with immediate", func(t *testing.T) {
			z.receive(t, 1, 0, 1, 51)
			a.b.WriteImm(a.peer, Slice{}, z.remote().At(0), 9, 3)
			post(t, a.b)
			if c := complete(t, a.ep, 1)[0]; c.Err() != nil {
				t.Fatalf("%+v", c)
			}
			if c := complete(t, z.ep, 1)[0]; c.Err() != nil || c.ID != 51 || c.Imm != 9 || c.Bytes != 0 {
				t.Fatalf("%+v", c)
			}
		})
	}
	if caps&CapRead != 0 {
		t.Run("read", func(t *testing.T) {
			fill(z.mem, 77)
			a.b.Read(a.peer, a.mr.At(half, 300000), z.remote().At(11), 4)
			post(t, a.b)
			if c := complete(t, a.ep, 1)[0]; c.Err() != nil || c.ID != 4 || c.Op != readOp(a.ep) {
				t.Fatalf("%+v", c)
			}
			if !bytes.Equal(a.mem[half:half+300000], z.mem[11:300011]) {
				t.Error("the bytes differ")
			}
		})
	}
	t.Run("send", func(t *testing.T) {
		z.receive(t, 3, 0, 8192, 60)
		clear(z.mem[:3*8192])
		a.b.Send(a.peer, a.mr.At(0, 8000), 5)
		post(t, a.b)
		c := complete(t, z.ep, 1)[0]
		if c.Err() != nil || c.ID != 60 || c.Op != OpRecv || c.Flags != 0 || c.Bytes != 8000 {
			t.Fatalf("%+v", c)
		}
		a.b.SendImm(a.peer, a.mr.At(1, 1), 0xffffffff, 6)
		post(t, a.b)
		c = complete(t, z.ep, 1)[0]
		if c.Err() != nil || c.ID != 61 || c.Flags != WithImm || c.Imm != 0xffffffff || c.Bytes != 1 {
			t.Fatalf("%+v", c)
		}
		a.b.SendV(a.peer, []Slice{a.mr.At(10, 100), a.mr.At(1000, 50)}, 7)
		post(t, a.b)
		c = complete(t, z.ep, 1)[0]
		if c.Err() != nil || c.ID != 62 || c.Bytes != 150 {
			t.Fatalf("%+v", c)
		}
		want := append(append([]byte(nil), a.mem[10:110]...), a.mem[1000:1050]...)
		if !bytes.Equal(z.mem[:8000], a.mem[:8000]) || z.mem[8192] != a.mem[1] || !bytes.Equal(z.mem[2*8192:][:150], want) {
			t.Error("the bytes differ")
		}
		for _, c := range complete(t, a.ep, 3) {
			if c.Err() != nil || c.Op != OpSend {
				t.Errorf("%+v", c)
			}
		}
	})
	if o.MaxInline > 0 {
		t.Run("inline", func(t *testing.T) { inlined(t, a, z, o) })
	}
	nothing(t, a)
	nothing(t, z)
}

// readOp is how a read completes: the library does not tell it from a send.
func readOp(ep *Endpoint) Op {
	if ep.Path().Direct {
		return OpRead
	}
	return OpSend
}

func inlined(t *testing.T, a, z *side, o SRDOptions) {
	for _, n := range []int{0, 1, 31, 33, o.MaxInline} {
		data := make([]byte, n)
		fill(data, byte(n))
		z.receive(t, 1, 0, 128, 70)
		clear(z.mem[:256])
		a.b.SendInline(a.peer, data, 8)
		if o.InlineWrite {
			a.b.WriteInline(a.peer, data, z.remote().At(128), 9)
		}
		want := append([]byte(nil), data...)
		clear(data) // copied already
		posted := a.b.Len()
		post(t, a.b)
		for _, c := range complete(t, a.ep, posted) {
			if c.Err() != nil {
				t.Fatalf("%d bytes: %+v", n, c)
			}
		}
		if c := complete(t, z.ep, 1)[0]; c.Err() != nil || c.Bytes != uint32(n) {
			t.Fatalf("%d bytes: %+v", n, c)
		}
		if !bytes.Equal(z.mem[:n], want) || o.InlineWrite && !bytes.Equal(z.mem[128:128+n], want) {
			t.Errorf("%d bytes differ", n)
		}
		// The next request finds no inline bytes in its entry.
		a.b.Write(a.peer, a.mr.At(0, 4), z.remote().At(0), 1)
		post(t, a.b)
		if c := complete(t, a.ep, 1)[0]; c.Err() != nil {
			t.Fatal(c.Err())
		}
	}
	a.b.SendInline(a.peer, make([]byte, o.MaxInline+1), 1)
	refused(t, a.b.Post(), ErrRange, "MaxInline", "nothing was posted")
}

func TestScatteredReceives(t *testing.T) {
	o := SRDOptions{MaxRecv: 5, MaxRecvSGE: 3}
	s := embeddedPair(t, 1<<16, o)
	a, z := s[0], s[1]
	fill(a.mem, 9)
	for round := range 40 { // past the ring's end and the ids' reuse
		for i := range z.ep.MaxRecv() {
			off := uint64(i * 1000)
			switch i % 3 {
			case 0:
				z.r.Recv(z.mr.At(off, 300), uint64(i))
			case 1:
				z.r.RecvV([]Slice{z.mr.At(off, 1), z.mr.At(off+1, 299)}, uint64(i))
			default:
				z.r.RecvV([]Slice{z.mr.At(off, 100), z.mr.At(off+100, 7), z.mr.At(off+107, 193)}, uint64(i))
			}
		}
		post(t, z.r)
		if z.ep.MaxRecv() < o.MaxRecv {
			t.Fatalf("%d receives, asked for %d", z.ep.MaxRecv(), o.MaxRecv)
		}
		for i := range z.ep.MaxRecv() {
			a.b.Send(a.peer, a.mr.At(uint64(i*300+round), 300), uint64(i))
			post(t, a.b)
			if c := complete(t, z.ep, 1)[0]; c.Err() != nil || c.ID != uint64(i) || c.Bytes != 300 {
				t.Fatalf("round %d: %+v", round, c)
			}
			if !bytes.Equal(z.mem[i*1000:][:300], a.mem[i*300+round:][:300]) {
				t.Fatalf("round %d: receive %d differs", round, i)
			}
		}
		complete(t, a.ep, z.ep.MaxRecv())
	}
	z.r.RecvV(make([]Slice, 4), 1)
	refused(t, z.r.Post(), ErrRange, "MaxRecvSGE")
	z.r.Recv(Slice{}, 1)
	refused(t, z.r.Post(), ErrRange, "empty")
}

func TestOneDeviceTalksToItself(t *testing.T) {
	dev := must[*Device](t)(Embedded(fabric(t, device.FabricOptions{}), device.Options{Name: "loop"}))
	if dev.Name() != "loop" {
		t.Errorf("name %q", dev.Name())
	}
	s := pairOn(t, [2]*Device{dev, dev}, 4096, [2]SRDOptions{})
	fill(s[0].mem, 3)
	for i := range 2 {
		s[i].b.Write(s[i].peer, s[i].mr.At(uint64(i)*2048, 2000), s[1-i].remote().At(uint64(i)*2048), uint64(i))
		post(t, s[i].b)
		if c := complete(t, s[i].ep, 1)[0]; c.Err() != nil || c.ID != uint64(i) {
			t.Fatalf("%+v", c)
		}
	}
	if !bytes.Equal(s[1].mem[:2000], s[0].mem[:2000]) {
		t.Error("the bytes differ")
	}
}

func TestUnsolicitedWritesTakeNoReceive(t *testing.T) {
	o := SRDOptions{Unsolicited: true, MaxRecv: 4}
	s := embeddedPair(t, 4096, o)
	a, z := s[0], s[1]
	z.receive(t, 1, 0, 64, 90)
	for i := range uint32(20) {
		a.b.WriteImm(a.peer, a.mr.At(0, 16), z.remote().At(0), i, 1)
		post(t, a.b)
		c := complete(t, z.ep, 1)[0]
		if c.Err() != nil || c.Flags != WithImm|Unsolicited || c.ID != 0 || c.Imm != i || c.Bytes != 16 {
			t.Fatalf("%+v", c)
		}
		complete(t, a.ep, 1)
	}
	a.b.Send(a.peer, a.mr.At(0, 3), 2)
	post(t, a.b)
	if c := complete(t, z.ep, 1)[0]; c.ID != 90 || c.Bytes != 3 {
		t.Errorf("the posted receive: %+v", c)
	}
}

func TestUnknownSendersTellTheirGID(t *testing.T) {
	o := SRDOptions{SGID: true}
	f := fabric(t, device.FabricOptions{})
	var devs [2]*Device
	for i := range devs {
		devs[i] = must[*Device](t)(Embedded(f, device.Options{}))
	}
	var ep [2]*Endpoint
	var mr [2]*MR
	for i, d := range devs {
		ep[i] = must[*Endpoint](t)(d.CreateSRD(o))
		mr[i] = must[*MR](t)(d.Register(memory(t, 4096), allAccess))
	}
	r := ep[1].RecvBatch()
	r.Recv(mr[1].At(0, 100), 1)
	post(t, r)
	to := must[*AH](t)(devs[0].CreateAH(devs[1].Attr().GID)).To(ep[1].QPN(), ep[1].Address().QKey)
	b := ep[0].Batch()
	b.Send(to, mr[0].At(0, 10), 1)
	post(t, b)
	c := complete(t, ep[1], 1)[0]
	if c.Err() != nil || c.AH != UnknownAH || c.SGID != devs[0].Attr().GID {
		t.Errorf("%+v, want %v", c, devs[0].Attr().GID)
	}
}

func TestDatagrams(t *testing.T) {
	f := fabric(t, device.FabricOptions{})
	dev := must[*Device](t)(Embedded(f, device.Options{}))
	a := must[*Endpoint](t)(dev.CreateUD(UDOptions{}))
	z := must[*Endpoint](t)(dev.CreateUD(UDOptions{QKey: 0x123}))
	mr := must[*MR](t)(dev.Register(memory(t, 4096), allAccess))
	fill(mr.mem[:100], 4)
	r := z.RecvBatch()
	r.Recv(mr.At(1024, 512), 5)
	post(t, r)
	to := must[*AH](t)(dev.CreateAH(dev.Attr().GID)).To(z.QPN(), 0x123)
	b := a.Batch()
	b.SendImm(to, mr.At(0, 100), 77, 6)
	post(t, b)
	if c := complete(t, a, 1)[0]; c.Err() != nil || c.ID != 6 {
		t.Fatalf("%+v", c)
	}
	c := complete(t, z, 1)[0]
	if c.Err() != nil || c.ID != 5 || c.Imm != 77 || c.SrcQPN != a.QPN() {
		t.Fatalf("%+v", c)
	}
	t.Logf("a datagram of 100 bytes is received as %d", c.Bytes)
	got := mr.mem[1024+int(c.Bytes)-100:][:100]
	if !bytes.Equal(got, mr.mem[:100]) {
		t.Error("the bytes differ")
	}
	_, err := dev.CreateUD(UDOptions{Unsolicited: true})
	refused(t, err, ErrUnsupported, "no RDMA")
}

func TestCountersCount(t *testing.T) {
	s := embeddedPair(t, 4096, SRDOptions{})
	a, z := s[0], s[1]
	word := memory(t, 8)
	c := must[*Counter](t)(a.dev.CreateCounter(CounterOptions{Done: &CounterMemory{Mapped: word}}))
	far := must[*Counter](t)(z.dev.CreateCounter(CounterOptions{}))
	// Endpoints close before what they feed.
	ea := must[*Endpoint](t)(a.dev.CreateSRD(SRDOptions{}))
	ez := must[*Endpoint](t)(z.dev.CreateSRD(SRDOptions{}))
	if err := ea.AttachCounter(c, CounterWrite|CounterSend); err != nil {
		t.Fatal(err)
	}
	if err := ez.AttachCounter(far, CounterRemoteWrite); err != nil {
		t.Fatal(err)
	}
	refused(t, c.Close(), ErrBusy, "srd")
	to := a.peer.AH().To(ez.QPN(), ez.Address().QKey)
	b := ea.Batch()
	for range 5 {
		b.Write(to, a.mr.At(0, 8), z.remote().At(0), 1)
	}
	b.Write(to, a.mr.At(0, 8), RemoteSlice{Addr: 64, Left: 8, RKey: 0xdead}, 1)
	post(t, b)
	complete(t, ea, 6)
	check := func(c *Counter, done, failed uint64) {
		t.Helper()
		eventually(t, func() error {
			d, f, err := c.Read()
			if err != nil || d != done || f != failed {
				return fmt.Errorf("counted %d and %d, %v; want %d and %d", d, f, err, done, failed)
			}
			return nil
		})
	}
	check(c, 5, 1)
	check(far, 5, 0)
	if word[0] != 5 {
		t.Errorf("the counter's own memory has %d", word[0])
	}
	if err := c.Set(100, 200); err != nil {
		t.Fatal(err)
	}
	if err := c.Add(1, 2); err != nil {
		t.Fatal(err)
	}
	check(c, 101, 202)
}
