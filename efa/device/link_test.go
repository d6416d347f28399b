package device

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// streams gives both ends of a TCP connection.
func streams(t testing.TB) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// linkFabrics links two fabrics through a stream.
func linkFabrics(t testing.TB, f, g *Fabric, a, b net.Conn) (*Link, *Link) {
	t.Helper()
	type result struct {
		l   *Link
		err error
	}
	c := make(chan result)
	go func() {
		l, err := g.Link(context.Background(), b)
		c <- result{l, err}
	}()
	la, err := f.Link(context.Background(), a)
	r := <-c
	if err != nil || r.err != nil {
		t.Fatal(err, r.err)
	}
	t.Cleanup(func() { la.Close(); r.l.Close() })
	return la, r.l
}

// empty tells whether all that went out on the link was answered.
func (p *port) empty() bool {
	for i := range p.slots {
		if p.slots[i].state.Load() != 0 {
			return false
		}
	}
	return true
}

// TestAcrossALink runs what devices of one fabric are held to with the two ends on
// two fabrics that are linked.
func TestAcrossALink(t *testing.T) {
	acrossLink = true
	defer func() { acrossLink = false }()
	for name, test := range map[string]func(*testing.T){
		"Send": TestSend, "WriteRead": TestWriteRead, "WriteImmediate": TestWriteImmediate,
		"RequestErrors": TestRequestErrors, "ReceiveErrors": TestReceiveErrors, "Datagram": TestDatagram,
		"InlineWrite": TestInlineWrite, "RequestIDs64": TestRequestIDs64, "UnknownSender": TestUnknownSender,
		"RNR": TestRNR, "Silence": TestSilence, "Flush": TestFlush, "TargetInError": TestTargetInError,
		"Drain": TestDrain, "Unsignaled": TestUnsignaled, "EventCounters": TestEventCounters,
		"NoAllocation": TestNoAllocation, "Soak": TestSoak, "Payload": TestPayload,
	} {
		t.Run(name, test)
	}
}

// BenchmarkLink writes across a link, in batches.
func BenchmarkLink(b *testing.B) {
	for _, size := range []int{64, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			pr := newLinkedPair(b, Options{}, Options{}, epOptions{})
			src, dst := pr.a.region(size, 0), pr.b.region(size, allAccess)
			w := pr.ab.rdma(wire.IORDMAWrite, 1, src.at(0, size), dst.addr, dst.RKey)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.ResetTimer()
			for left := b.N; left > 0; left -= 32 {
				n := min(32, left)
				for range n {
					pr.a.put(w)
				}
				pr.a.ring()
				pr.a.scq.drain(n)
			}
		})
	}
}
