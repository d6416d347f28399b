//go:build lab

package transfer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/verbs"
)

// exporter gives an exporter, and skips the test where there is none.
func exporter(t *testing.T, name string) dmabuf.Exporter {
	t.Helper()
	e, err := MemoryNamed(name)
	if err == nil && e != nil {
		err = e.Available()
	}
	if err != nil {
		t.Skip("needs an exporter: ", err)
	}
	return e
}

// writesByEFA skips where the guest has no EFA device that can write.
func writesByEFA(t *testing.T) {
	t.Helper()
	if os.Getenv("PEERDIRECT_EFA") == "" {
		t.Skip("needs a lab guest with EFA devices: lab run --efa N")
	}
	rail, err := labOptions().Rail.Open(Want{})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("needs RDMA write, which the efa driver of linux 6.1 lacks: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := rail.Close(); err != nil {
		t.Fatal(err)
	}
}

// held is everything that a process holds: objects by kind, and descriptors.
func held(t *testing.T) string {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("verbs %v efa %v dmabuf %v descriptors %d", verbs.Live(), efa.Live(), dmabuf.Live(), len(fds))
}

// leavesNothing checks at the end of the test that what is held is what was.
func leavesNothing(t *testing.T) {
	t.Helper()
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		l.Close() // the runtime opens its poller with the first, for good
	}
	before := held(t)
	t.Cleanup(func() {
		deadline := time.Now().Add(5 * time.Second)
		for held(t) != before && time.Now().Before(deadline) {
			time.Sleep(20 * time.Millisecond)
		}
		if diff := cmp.Diff(before, held(t)); diff != "" {
			t.Errorf("before and after:\n%s", diff)
		}
	})
}

// memoryPairs are where pages come from and go to.
var memoryPairs = [][2]string{
	{"udmabuf", "host"}, {"host", "heap:system"}, {"heap:system", "udmabuf"}, {"udmabuf", "udmabuf"},
}

// TestEFATransferMemory moves pages between memories of exporters by the
// kernel's EFA devices.
func TestEFATransferMemory(t *testing.T) {
	writesByEFA(t)
	addr := inLab(t)
	for _, pair := range append(slices.Clone(memoryPairs), [2]string{"accel", "accel"}, [2]string{"accel", "host"}, [2]string{"host", "accel"}) {
		t.Run(pair[0]+"-"+pair[1], func(t *testing.T) {
			from, to := exporter(t, pair[0]), exporter(t, pair[1])
			leavesNothing(t)
			l := listen(t, addr, ListenOptions{Options: withMemory(labOptions(), to)})
			for _, o := range []SendOptions{
				{Layout: Layout{PageSize: 64 << 10, Pages: 16, Stride: 2, Seed: 1}, Iterations: 2},
				{Layout: Layout{PageSize: 64, Pages: 3000, Stride: 3, Seed: 7}, Batch: 64, Depth: 512},
			} {
				o.Options = withMemory(labOptions(), from)
				c := receive(l)
				sent, err := To(context.Background(), l.Addr().String(), o)
				got := within(t, time.Minute, c)
				if err != nil || got.err != nil {
					t.Fatalf("%+v: %v, %v", o.Layout, err, got.err)
				}
				moved(t, o, sent, got.result, memoryName(from), memoryName(to))
			}
		})
	}
}

func withMemory(o Options, m dmabuf.Exporter) Options {
	o.Memory = m
	return o
}

// moved checks both results of a transfer between two kinds of memory.
func moved(t *testing.T, o SendOptions, sent, received *Result, from, to string) {
	t.Helper()
	for _, r := range []*Result{sent, received} {
		if !r.Verified || r.Bytes != o.Layout.Bytes()*uint64(max(o.Iterations, 1)) {
			t.Errorf("%+v", r)
		}
	}
	s, r := sent.Conditions, received.Conditions
	if s.Memory != from || s.PeerMemory != to || r.Memory != to || r.PeerMemory != from || sent.Checksum != received.Checksum {
		t.Errorf("%+v\n%+v", sent, received)
	}
}

func TestEFADamagedPageOfADMABufIsNamed(t *testing.T) {
	writesByEFA(t)
	addr := inLab(t)
	memory := exporter(t, "udmabuf")
	leavesNothing(t)
	layout := Layout{PageSize: 4096, Pages: 100, Stride: 2, Seed: 3}
	at := layout.TargetSlots()(42)*4096 + 1000
	l := listen(t, addr, ListenOptions{corrupt: func(mem []byte) { mem[at] ^= 4 }, Options: withMemory(labOptions(), memory)})
	c := receive(l)
	_, err := To(context.Background(), l.Addr().String(), SendOptions{Options: withMemory(labOptions(), memory), Layout: layout})
	for _, err := range []error{err, within(t, time.Minute, c).err} {
		var v *VerifyError
		if !errors.As(err, &v) || fmt.Sprint(v.First) != "[42]" {
			t.Errorf("%v", err)
		}
	}
}

// TestEFAInterruptedTransferOfDMABufs: whoever is interrupted, nothing is left
// of either side.
func TestEFAInterruptedTransferOfDMABufs(t *testing.T) {
	writesByEFA(t)
	addr := inLab(t)
	memory := exporter(t, "udmabuf")
	for _, side := range []string{RoleSender, RoleReceiver} {
		t.Run(side, func(t *testing.T) {
			leavesNothing(t)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			l := listen(t, addr, ListenOptions{Options: withMemory(labOptions(), memory)})
			o := SendOptions{Options: withMemory(labOptions(), memory), Layout: endless, Iterations: maxIterations}
			o.Tell = func(p Progress) {
				if p.Iteration == 2 {
					cancel()
				}
			}
			sending, receiving := ctx, context.Background()
			if side == RoleReceiver {
				sending, receiving = receiving, sending
			}
			c := make(chan outcome, 1)
			go func() {
				r, err := l.Receive(receiving)
				c <- outcome{r, err}
			}()
			_, err := To(sending, l.Addr().String(), o)
			for _, err := range []error{err, within(t, time.Minute, c).err} {
				if err == nil || !strings.Contains(err.Error(), ErrCancelled.Error()) {
					t.Errorf("%v", err)
				}
			}
		})
	}
}

// TestMemoryThatTheDeviceRefuses: no software driver of the kernel takes a
// dma-buf. That is told before anybody is waited for, and nothing is moved by
// another way.
func TestMemoryThatTheDeviceRefuses(t *testing.T) {
	addr := inLab(t)
	o := withMemory(labOptions(), exporter(t, "udmabuf"))
	leavesNothing(t)
	_, listening := Listen(t.Context(), addr, ListenOptions{Options: o})
	_, sending := To(t.Context(), addr, SendOptions{Options: o, Layout: endless})
	for _, err := range []error{listening, sending} {
		var refused *MemoryError
		if !errors.As(err, &refused) || !errors.Is(err, errors.ErrUnsupported) || refused.Memory != "udmabuf" ||
			refused.Device != os.Getenv("PEERDIRECT_DEVICE") || !strings.Contains(err.Error(), "--memory host") {
			t.Errorf("%v", err)
		}
	}
	t.Log(sending)
}

// TestEmbeddedDevicesMapDMABufs: what the process can map, a device in it
// reaches.
func TestEmbeddedDevicesMapDMABufs(t *testing.T) {
	for _, name := range []string{"udmabuf", "heap:system"} {
		for _, nics := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d", name, nics), func(t *testing.T) {
				memory := exporter(t, name)
				leavesNothing(t)
				e := embedded(t, EmbeddedOptions{NICs: nics})
				o := SendOptions{Options: withMemory(Options{Timeout: 20 * time.Second}, memory), Layout: Layout{PageSize: 4 << 10, Pages: 200, Stride: 2, Seed: 1}, Iterations: 2}
				sent, received, err := e.Transfer(t.Context(), 1, 0, o)
				if err != nil {
					t.Fatal(err)
				}
				moved(t, o, sent, received, name, name)
			})
		}
	}
}

// TestTwoNodesEFATransferMemory runs on both of two machines, over all their EFA
// devices that reach the memory, and shows the rates of one memory beside another's.
func TestTwoNodesEFATransferMemory(t *testing.T) {
	if os.Getenv("PEERDIRECT_NODES") != "2" {
		t.Skip("needs two machines: lab run --nodes 2 --efa N")
	}
	writesByEFA(t)
	host := strings.Split(os.Getenv("PEERDIRECT_ADDRS"), ",")[0]
	for i, pair := range [][2]string{{"host", "host"}, {"udmabuf", "heap:system"}, {"host", "udmabuf"}, {"accel", "accel"}, {"accel", "host"}} {
		t.Run(pair[0]+"-"+pair[1], func(t *testing.T) {
			mine, theirs := exporter(t, pair[0]), exporter(t, pair[1])
			if os.Getenv("PEERDIRECT_NODE") == "0" {
				mine, theirs = theirs, mine // the second of a pair receives
			}
			devices := EFAName
			if slices.Contains(pair[:], "accel") {
				devices = os.Getenv("PEERDIRECT_DEVICE") // the others may be below another switch
			}
			nics, err := Named(devices, RCOptions{})
			if err != nil {
				t.Fatal(err)
			}
			o := withMemory(Options{Rail: nics, Timeout: 30 * time.Second}, mine)
			leavesNothing(t)
			layout := Layout{PageSize: 64 << 10, Pages: 64, Stride: 2, Seed: 11}
			at := net.JoinHostPort(host, fmt.Sprint(18640+i))
			var got outcome
			if os.Getenv("PEERDIRECT_NODE") == "0" {
				got = within(t, time.Minute, receive(listen(t, at, ListenOptions{Options: o})))
			} else {
				got.result, got.err = To(context.Background(), at, SendOptions{Options: o, Layout: layout, Iterations: 2, Window: 30 * time.Second})
			}
			if got.err != nil || !got.result.Verified || got.result.Bytes != 2*layout.Bytes() {
				t.Fatalf("%v, %+v", got.err, got.result)
			}
			if c := got.result.Conditions; c.Memory != memoryName(mine) || c.PeerMemory != memoryName(theirs) {
				t.Errorf("%+v", c)
			}
			t.Logf("%s: %.1f MiB/s", got.result.Role, got.result.PerSecond/(1<<20))
		})
	}
}

// perNICMemory is udmabuf's with the rules of a driver whose descriptors take one
// NIC each and must outlive the registration.
type perNICMemory struct {
	dmabuf.Memory
	exports *[]*dmabuf.Buffer
}

func (p perNICMemory) Export(offset, length uint64) (*dmabuf.Buffer, error) {
	b, err := p.Memory.Export(offset, length)
	if err == nil {
		b.OneImporter, b.Closing = true, dmabuf.CloseAfterDeregister
		*p.exports = append(*p.exports, b)
	}
	return b, err
}

// TestAnExportForEachNIC: one descriptor for each of several NICs where the
// exporter wants that, open until its registration is gone.
func TestAnExportForEachNIC(t *testing.T) {
	from := exporter(t, "udmabuf")
	leavesNothing(t)
	const nics = 3
	e := embedded(t, EmbeddedOptions{NICs: nics})
	rail, err := e.Node(0).Open(Want{})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := from.Allocate(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	var exports []*dmabuf.Buffer
	x := NewExport(perNICMemory{mem, &exports}, 4096, 1000)
	region, err := rail.RegisterExport(x)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Registered(); err != nil {
		t.Fatal(err)
	}
	if len(exports) != nics || exports[0].FD() == exports[1].FD() || len(region.lkeys) != nics {
		t.Errorf("%d exports for %d NICs", len(exports), nics)
	}
	for _, b := range exports {
		if b.FD() < 0 {
			t.Error("a descriptor was closed while its registration is there")
		}
	}
	if err := x.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("closed under registrations: %v", err)
	}
	for _, c := range []interface{ Close() error }{rail, x, mem} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, b := range exports {
		if b.FD() >= 0 {
			t.Error("a descriptor is open in the end")
		}
	}
}

// TestEFAMemoryOutOfReach: a NIC below another switch than the accelerator, which
// linux 7.3 does not let through, is named; the other one alone is not taken.
func TestEFAMemoryOutOfReach(t *testing.T) {
	writesByEFA(t)
	if os.Getenv("PEERDIRECT_KERNEL") != "7.3" || !strings.Contains(os.Getenv("PEERDIRECT_EFA"), ",") {
		t.Skip("needs CONFIG_PCI_P2PDMA, which linux 6.1 and 6.12 here lack, and two EFA devices: lab run --kernel 7.3 --efa 2 --accelerator 1")
	}
	memory := exporter(t, "accel")
	leavesNothing(t)
	nics, err := Named(EFAName, RCOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Listen(t.Context(), "127.0.0.1:0", ListenOptions{Options: withMemory(Options{Rail: nics}, memory)})
	var refused *MemoryError
	if !errors.As(err, &refused) || !errors.Is(err, syscall.EREMOTEIO) || refused.Device == os.Getenv("PEERDIRECT_DEVICE") ||
		!strings.Contains(err.Error(), "--device") || !strings.Contains(err.Error(), "--memory host") {
		t.Errorf("%v", err)
	}
	t.Log(err)
}
