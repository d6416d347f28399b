//go:build lab

package efa

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/dmabuf"
)

// accelerator is the lab's first.
func accelerator(t *testing.T) dmabuf.Exporter {
	t.Helper()
	names := strings.Split(os.Getenv("PEERDIRECT_ACCELERATORS"), ",")
	if names[0] == "" {
		t.Skip("needs a guest with an accelerator: peerdirect lab run --efa 1 --accelerator 1")
	}
	x, err := dmabuf.Open(names[0])
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// exported is memory of an accelerator, and a part of it as a dma-buf.
func exported(t *testing.T, x dmabuf.Exporter, size, offset, length uint64) (dmabuf.Memory, *dmabuf.Buffer) {
	t.Helper()
	mem := must[dmabuf.Memory](t)(x.Allocate(size))
	return mem, must[*dmabuf.Buffer](t)(mem.Export(offset, length))
}

// put and look copy by the processor, through the BAR.
func put(t *testing.T, mem dmabuf.Memory, off uint64, b []byte) {
	t.Helper()
	if n, err := mem.WriteAt(b, int64(off)); err != nil || n != len(b) {
		t.Fatalf("writing: %d bytes, %v", n, err)
	}
}

func look(t *testing.T, mem dmabuf.Memory, off uint64, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if got, err := mem.ReadAt(b, int64(off)); err != nil || got != n {
		t.Fatalf("reading: %d bytes, %v", got, err)
	}
	return b
}

// From one piece of an accelerator's memory to another, by writes and by reads:
// no byte in the host's memory. Each is a part of a larger allocation, so an
// offset that got lost shows.
func TestEFAAcceleratorToAccelerator(t *testing.T) {
	x := accelerator(t)
	paths(t, func(t *testing.T, o OpenOptions) {
		s := labPair(t, 4096, o, SRDOptions{MaxSend: 64})[0]
		a := s.dev.Attr()
		const size, piece, inside = 2 << 20, 64 << 10, 3 * 4096
		var mem [2]dmabuf.Memory
		var mr [2]*MR
		for i := range mem {
			var buf *dmabuf.Buffer
			mem[i], buf = exported(t, x, size+2*inside, inside, size)
			mr[i] = must[*MR](t)(s.dev.RegisterDMABuf(buf.FD(), buf.Offset, buf.Length, 0, accessOf(s.dev)))
			put(t, mem[i], 0, bytes.Repeat([]byte{byte(0xa0 + i)}, size+2*inside))
		}
		want := make([]byte, size)
		fill(want, 5)
		put(t, mem[0], inside, want)
		to := must[*AH](t)(s.dev.CreateAH(s.ep.Address().GID)).To(s.ep.QPN(), s.ep.Address().QKey)
		ops := map[string]func(off uint64){}
		if a.Caps&CapWrite != 0 {
			ops["write"] = func(off uint64) { s.b.Write(to, mr[0].At(off, piece), mr[1].Remote().At(off), off) }
		}
		if a.Caps&CapRead != 0 {
			ops["read"] = func(off uint64) { s.b.Read(to, mr[1].At(off, piece), mr[0].Remote().At(off), off) }
		}
		for name, op := range ops {
			put(t, mem[1], inside, make([]byte, size))
			start := time.Now()
			for off := uint64(0); off < size; off += piece {
				op(off)
			}
			post(t, s.b)
			for _, c := range complete(t, s.ep, size/piece) {
				if c.Err() != nil {
					t.Fatal(c.Err())
				}
			}
			t.Logf("%s: %.0f MiB/s", name, size/time.Since(start).Seconds()/(1<<20))
			if !bytes.Equal(look(t, mem[1], inside, size), want) {
				t.Errorf("%s: the bytes differ", name)
			}
			for _, off := range []uint64{0, inside + size} {
				if !bytes.Equal(look(t, mem[1], off, inside), bytes.Repeat([]byte{0xa1}, inside)) {
					t.Errorf("%s: what lies at offset %d, outside the buffer, has changed", name, off)
				}
			}
		}
	})
}

// Memory that is freed while a region of it lives is given to nobody else.
func TestEFAAcceleratorMemoryOutlivesItsOwner(t *testing.T) {
	x := accelerator(t)
	dev := labDevice(t, labDevices(t)[0], OpenOptions{})
	const size = 1 << 20
	before := dmabuf.Live()
	mem, err := x.Allocate(size)
	if err != nil {
		t.Fatal(err)
	}
	buf, err := mem.Export(0, size)
	if err != nil {
		t.Fatal(err)
	}
	mr, err := dev.RegisterDMABuf(buf.FD(), buf.Offset, size, 0, LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []interface{ Close() error }{buf, mem} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	// All that can be had, in pieces, is less by that one.
	all := func() (n int) {
		var got []dmabuf.Memory
		for ; ; n++ {
			m, err := x.Allocate(size)
			if err != nil {
				if !errors.Is(err, syscall.ENOSPC) {
					t.Error(err)
				}
				break
			}
			got = append(got, m)
		}
		for _, m := range got {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
		return n
	}
	held := all()
	if err := mr.Close(); err != nil {
		t.Error(err)
	}
	if after := all(); after != held+1 {
		t.Errorf("%d pieces while a region holds one, %d afterwards", held, after)
	}
	for kind, n := range dmabuf.Live() {
		if n != before[kind] {
			t.Errorf("%d of kind %s, before %d", n, kind, before[kind])
		}
	}
}

// asksForPath tells whether the guest's kernel knows which functions reach each
// other.
func asksForPath(t *testing.T) bool {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile("/boot/config-" + unix.ByteSliceToString(u.Release[:]))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(config, []byte("CONFIG_PCI_P2PDMA=y\n"))
}

// The second device is below another host bridge than the accelerator. QEMU's is
// not on the kernel's list of those that pass peer-to-peer traffic on.
func TestEFAAcceleratorOutOfReach(t *testing.T) {
	x := accelerator(t)
	names := labDevices(t)
	if len(names) < 2 {
		t.Skip("needs two devices: peerdirect lab run --efa 2 --accelerator 1")
	}
	_, buf := exported(t, x, 1<<20, 0, 1<<20)
	near, far := labDevice(t, names[0], OpenOptions{}), labDevice(t, names[1], OpenOptions{})
	if err := must[*MR](t)(near.RegisterDMABuf(buf.FD(), buf.Offset, buf.Length, 0, LocalWrite)).Close(); err != nil {
		t.Error(err)
	}
	mr, err := far.RegisterDMABuf(buf.FD(), buf.Offset, buf.Length, 0, LocalWrite)
	if !asksForPath(t) {
		must[*MR](t)(mr, err)
		t.Skip("needs a kernel with CONFIG_PCI_P2PDMA: this one lets every device have it")
	}
	if err == nil {
		mr.Close()
	}
	if !errors.Is(err, syscall.EREMOTEIO) {
		t.Errorf("a device that cannot reach the accelerator: %v", err)
	}
	log, _ := exec.Command("dmesg").Output()
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "peer-to-peer") || strings.Contains(line, "P2PDMA") {
			t.Logf("kernel: %s", strings.TrimSpace(line))
		}
	}
	if !strings.Contains(string(log), "cannot be used for peer-to-peer DMA") {
		t.Errorf("the kernel's log does not say why")
	}
}

// TestTwoNodesEFAAccelerator moves bytes between the accelerators of two
// machines, both ways at once: straight, and by way of the hosts' memory.
func TestTwoNodesEFAAccelerator(t *testing.T) {
	x := accelerator(t)
	n := meet(t)
	dev := labDevice(t, labDevices(t)[0], OpenOptions{})
	if dev.Attr().Caps&CapWrite == 0 {
		t.Skipf("needs RDMA write, which the efa driver of linux 6.1 lacks; here are %v", dev.Attr().Caps)
	}
	const size, piece, rounds = 4 << 20, 256 << 10, 3
	mem, buf := exported(t, x, 2*size, 0, 2*size) // what goes, and what comes
	host := memoryFor(t, dev, 2*size)
	ep := must[*Endpoint](t)(dev.CreateSRD(SRDOptions{MaxSend: 64}))
	b := ep.Batch()
	t.Cleanup(b.Close)
	mine, theirs := byte(1), byte(2)
	if n.first {
		mine, theirs = theirs, mine
	}
	type way struct {
		name   string
		mr     *MR
		remote RemoteRegion
		took   []time.Duration
	}
	ways := []*way{{name: "straight"}, {name: "through host memory"}}
	ways[0].mr = must[*MR](t)(dev.RegisterDMABuf(buf.FD(), buf.Offset, buf.Length, 0, LocalWrite|RemoteWrite))
	ways[1].mr = must[*MR](t)(dev.Register(host, LocalWrite|RemoteWrite))
	var to *Dest
	for _, w := range ways {
		other := n.swap(t, hello{Address: ep.Address(), Region: w.mr.Remote(), Step: w.name})
		w.remote = other.Region
		if to == nil {
			to = must[*AH](t)(dev.CreateAH(other.Address.GID)).To(other.Address.QPN, other.Address.QKey)
		}
	}
	data, want := make([]byte, size), make([]byte, size)
	for round := range byte(rounds) {
		for i, w := range ways {
			fill(data, mine+2*round)
			fill(want, theirs+2*round)
			put(t, mem, 0, data)
			n.swap(t, hello{Step: "ready"})
			start := time.Now()
			if i == 1 {
				copy(host[:size], mem.Bytes()[:size])
			}
			for off := uint64(0); off < size; off += piece {
				b.Write(to, w.mr.At(off, piece), w.remote.At(size+off), off)
			}
			post(t, b)
			for _, c := range complete(t, ep, size/piece) {
				if c.Err() != nil {
					t.Fatal(c.Err())
				}
			}
			n.swap(t, hello{Step: "written"})
			if i == 1 {
				copy(mem.Bytes()[size:], host[size:])
			}
			w.took = append(w.took, time.Since(start))
			if !bytes.Equal(look(t, mem, size, size), want) {
				t.Fatalf("%s: the bytes differ", w.name)
			}
			put(t, mem, size, data) // for the next to show
		}
	}
	for _, w := range ways {
		slices.Sort(w.took)
		t.Logf("%s: %.0f MiB/s each way, the median of %d", w.name, size/w.took[rounds/2].Seconds()/(1<<20), rounds)
	}
}
