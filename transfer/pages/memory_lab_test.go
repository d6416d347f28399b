//go:build lab

package pages

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

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/internal/leaktest"
)

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
			leaktest.Held(t)
			l := listen(t, open(t, withMemory(labOptions(), to)), addr, ListenOptions{})
			for _, what := range []SendOptions{
				{Layout: Layout{PageSize: 64 << 10, Pages: 16, Stride: 2, Seed: 1}, Iterations: 2},
				{Layout: Layout{PageSize: 64, Pages: 3000, Stride: 3, Seed: 7}},
				{Layout: Layout{PageSize: 4096, Pages: 100, Stride: 2, Seed: 5}, Read: true},
			} {
				sender := open(t, withMemory(labOptions(), from))
				if what.Read && !sender.Rails()[0].Reads {
					continue
				}
				got := receive(l)
				s := send(context.Background(), sender, l.Addr().String(), what)
				r := within(t, time.Minute, got)
				if s.err != nil || r.err != nil {
					t.Fatalf("%+v: %v, %v", what, s.err, r.err)
				}
				moved(t, what, s.result, r.result, transfer.MemoryName(from), transfer.MemoryName(to))
			}
		})
	}
}

func withMemory(o Options, m dmabuf.Exporter) Options {
	o.Memory = m
	return o
}

// moved checks both results of a transfer between two kinds of memory.
func moved(t *testing.T, what SendOptions, sent, received *Result, from, to string) {
	t.Helper()
	for _, r := range []*Result{sent, received} {
		if !r.Verified || r.Bytes != what.Layout.Bytes()*uint64(max(what.Iterations, 1)) {
			t.Error(show(r))
		}
	}
	s, r := sent.Conditions, received.Conditions
	if s.Memory != from || s.PeerMemory != to || r.Memory != to || r.PeerMemory != from || sent.Checksum != received.Checksum {
		t.Errorf("%s\n%s", show(sent), show(received))
	}
}

func TestEFADamagedPageOfADMABufIsNamed(t *testing.T) {
	writesByEFA(t)
	addr := inLab(t)
	memory := exporter(t, "udmabuf")
	leaktest.Held(t)
	layout := Layout{PageSize: 4096, Pages: 100, Stride: 2, Seed: 3}
	at := layout.TargetSlots()(42)*4096 + 1000
	l := listen(t, open(t, withMemory(labOptions(), memory)), addr, ListenOptions{corrupt: func(mem []byte) { mem[at] ^= 4 }})
	got := receive(l)
	s := send(context.Background(), open(t, withMemory(labOptions(), memory)), l.Addr().String(), SendOptions{Layout: layout})
	for _, err := range []error{s.err, within(t, time.Minute, got).err} {
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
			leaktest.Held(t)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			sending, receiving := ctx, context.Background()
			if side == RoleReceiver {
				sending, receiving = receiving, sending
			}
			l := listen(t, open(t, withMemory(labOptions(), memory)), addr, ListenOptions{})
			got := make(chan outcome, 1)
			go func() {
				r, err := l.Receive(receiving)
				got <- outcome{r, err}
			}()
			o := withMemory(labOptions(), memory)
			o.Tell = during(cancel)
			s := send(sending, open(t, o), l.Addr().String(), without)
			for _, err := range []error{s.err, within(t, time.Minute, got).err} {
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
	inLab(t)
	o := withMemory(labOptions(), exporter(t, "udmabuf"))
	leaktest.Held(t)
	_, err := Open(o)
	var refused *transfer.MemoryError
	if !errors.As(err, &refused) || !errors.Is(err, errors.ErrUnsupported) || refused.Memory != "udmabuf" ||
		refused.Device != os.Getenv("PEERDIRECT_DEVICE") || !strings.Contains(err.Error(), "--memory host") {
		t.Errorf("%v", err)
	}
	t.Log(err)
}

// TestEmbeddedDevicesMapDMABufs: what the process can map, a device in it
// reaches.
func TestEmbeddedDevicesMapDMABufs(t *testing.T) {
	for _, name := range []string{"udmabuf", "heap:system"} {
		for _, nics := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d", name, nics), func(t *testing.T) {
				memory := exporter(t, name)
				leaktest.Held(t)
				e := embedded(t, transfer.EmbeddedOptions{NICs: nics})
				what := SendOptions{Layout: Layout{PageSize: 4 << 10, Pages: 200, Stride: 2, Seed: 1}, Iterations: 2}
				sent, received, err := Inside(t.Context(), e, 1, 0, Options{Memory: memory, Timeout: 20 * time.Second}, what, nil)
				if err != nil {
					t.Fatal(err)
				}
				moved(t, what, sent, received, name, name)
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
			devices := transfer.EFAName
			if slices.Contains(pair[:], "accel") {
				devices = os.Getenv("PEERDIRECT_DEVICE") // the others may be below another switch
			}
			nics, err := transfer.Named(devices, transfer.RCOptions{})
			if err != nil {
				t.Fatal(err)
			}
			o := withMemory(Options{Rail: nics, Timeout: 30 * time.Second, Peers: 2}, mine)
			o.Control.Window = 30 * time.Second
			leaktest.Held(t)
			what := SendOptions{Layout: Layout{PageSize: 64 << 10, Pages: 64, Stride: 2, Seed: 11}, Iterations: 2}
			at := net.JoinHostPort(host, fmt.Sprint(18640+i))
			var got outcome
			if os.Getenv("PEERDIRECT_NODE") == "0" {
				got = within(t, time.Minute, receive(listen(t, open(t, o), at, ListenOptions{})))
			} else {
				got = send(context.Background(), open(t, o), at, what)
			}
			if got.err != nil || !got.result.Verified || got.result.Bytes != 2*what.Layout.Bytes() {
				t.Fatalf("%v, %s", got.err, show(got.result))
			}
			if c := got.result.Conditions; c.Memory != transfer.MemoryName(mine) || c.PeerMemory != transfer.MemoryName(theirs) {
				t.Errorf("%+v", c)
			}
			t.Logf("%s: %.1f MiB/s", got.result.Role, got.result.PerSecond/(1<<20))
		})
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
	leaktest.Held(t)
	nics, err := transfer.Named(transfer.EFAName, transfer.RCOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(withMemory(Options{Rail: nics}, memory))
	var refused *transfer.MemoryError
	if !errors.As(err, &refused) || !errors.Is(err, syscall.EREMOTEIO) || refused.Device == os.Getenv("PEERDIRECT_DEVICE") ||
		!strings.Contains(err.Error(), "--device") || !strings.Contains(err.Error(), "--memory host") {
		t.Errorf("%v", err)
	}
	t.Log(err)
}
