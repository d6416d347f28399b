package device

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// Every byte of a region that a device reads or writes is counted once, where it
// lies; what is no region's is not.
func TestPayload(t *testing.T) {
	pr := newPair(t, FabricOptions{}, Options{}, Options{}, epOptions{wide: true})
	const size = 20_000 // packets of more than one page, and pages of both places
	hostA, hostB := pr.a.region(64<<10, allAccess), pr.b.region(64<<10, allAccess)
	for _, e := range []*endpoint{pr.a, pr.b} {
		e.mem.accelerator, _ = e.mem.alloc(4096)
	}
	accA, accB := pr.a.region(64<<10, allAccess), pr.b.region(64<<10, allAccess)

	var a, b PayloadStats // of RDMA, and then of messages
	rdma := func(d *Device) PayloadStats { return d.Stats().RDMAPayload }
	messages := func(d *Device) PayloadStats { return d.Stats().MessagePayload }
	of := rdma
	check := func(what string) {
		t.Helper()
		for end := time.Now().Add(patience); of(pr.a.d) != a || of(pr.b.d) != b; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %s%s", what, cmp.Diff(a, of(pr.a.d)), cmp.Diff(b, of(pr.b.d)))
			}
		}
	}
	write := func(from, to region) {
		t.Helper()
		pr.a.post(pr.ab.rdma(wire.IORDMAWrite, 1, from.at(100, size), to.addr+4000, to.RKey))
		pr.a.scq.expect(1, wire.CompOK)
	}
	write(hostA, hostB)
	a.HostRead += size
	b.HostWritten += size
	check("a write from host to host")
	write(accA, accB)
	a.AcceleratorRead += size
	b.AcceleratorWritten += size
	check("a write from accelerator to accelerator")
	write(hostA, accB)
	a.HostRead += size
	b.AcceleratorWritten += size
	check("a write from host to accelerator")

	pr.a.post(pr.ab.rdma(wire.IORDMARead, 2, accA.at(0, size), hostB.addr, hostB.RKey))
	pr.a.scq.expect(2, wire.CompOK)
	b.HostRead += size
	a.AcceleratorWritten += size
	check("a read")

	if none := (PayloadStats{}); messages(pr.a.d) != none || messages(pr.b.d) != none {
		t.Error("reads and writes count as messages")
	}
	of, a, b = messages, PayloadStats{}, PayloadStats{}
	beforeA, beforeB := rdma(pr.a.d), rdma(pr.b.d)
	// A message gathered from both and scattered to both.
	pr.b.recv(7, hostB, 0, 1000)
	pr.a.post(pr.ab.send(3, hostA.at(0, 300), accA.at(0, 500)))
	pr.b.scq.expect(7, wire.CompOK)
	pr.a.scq.expect(3, wire.CompOK)
	a.HostRead += 300
	a.AcceleratorRead += 500
	b.HostWritten += 800
	check("a message of both")
	pr.b.recv(8, hostB, 0, 100, 200, 50)
	pr.a.post(pr.ab.send(4, accA.at(0, 120)))
	pr.b.scq.expect(8, wire.CompOK)
	pr.a.scq.expect(4, wire.CompOK)
	a.AcceleratorRead += 120
	b.HostWritten += 120
	check("a message to two buffers")

	// Inline data lies in the work entry.
	pr.b.recv(9, accB, 0, 64)
	pr.a.post(pr.ab.inline(5, make([]byte, 24)))
	pr.b.scq.expect(9, wire.CompOK)
	pr.a.scq.expect(5, wire.CompOK)
	b.AcceleratorWritten += 24
	check("an inline message")

	pr.b.recv(10, hostB, 0, 64)
	pr.a.post(pr.ab.send(6))
	pr.b.scq.expect(10, wire.CompOK)
	pr.a.scq.expect(6, wire.CompOK)
	check("an empty message")
	if of, a, b = rdma, beforeA, beforeB; !acrossLink {
		// Across a link the bytes go, and count, before the other side can refuse.
		pr.a.post(pr.ab.rdma(wire.IORDMAWrite, 7, hostA.at(0, size), accB.addr, accB.RKey+1<<16))
		pr.a.scq.expect(7, wire.CompRemoteBadAddress)
	}
	check("messages, and a write that was refused")
}

// One region of pages in both places.
func TestPayloadOfAMixedRegion(t *testing.T) {
	pr := newPair(t, FabricOptions{}, Options{}, Options{}, epOptions{})
	src, dst := pr.a.region(64<<10, 0), pr.b.region(64<<10, allAccess)
	pr.b.mem.accelerator = pr.b.mem.base + pr.b.mem.next - uint64(len(dst.b)/2)
	pr.a.post(pr.ab.rdma(wire.IORDMAWrite, 1, src.at(0, 64<<10), dst.addr, dst.RKey))
	pr.a.scq.expect(1, wire.CompOK)
	want := PayloadStats{HostWritten: 32 << 10, AcceleratorWritten: 32 << 10}
	eventually(t, "half of the bytes in each place", func() bool { return pr.b.d.Stats().RDMAPayload == want })
}
