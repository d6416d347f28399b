//go:build lab

package umem_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/internal/umem"
	"github.com/peerdirect/peerdirect/verbs"
	"golang.org/x/sys/unix"
)

// descriptor is one kind of what may be given as a dma-buf.
type descriptor struct {
	name string
	fd   int
	size uint64
}

// descriptors are every kind that this kernel has, those of no exporter too.
func descriptors(t *testing.T) []descriptor {
	t.Helper()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	path, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { from.Close(); to.Close(); unix.Close(path) })
	all := []descriptor{{"none", -1, 65536}, {"closed", 1 << 20, 65536}, {"a pipe", int(from.Fd()), 65536}, {"a path", path, 65536}}
	if out, err := exec.Command("modprobe", "vgem").CombinedOutput(); err != nil {
		t.Fatalf("modprobe vgem: %v\n%s", err, out)
	}
	for _, name := range []string{"udmabuf", "heap:system", "vgem"} {
		exporter, err := dmabuf.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := exporter.Available(); err != nil {
			t.Logf("without %s: %v", name, err)
			continue
		}
		for _, size := range []uint64{4096, 65536} {
			mem, err := exporter.Allocate(size)
			if err != nil {
				t.Fatal(err)
			}
			buf, err := mem.Export(0, size)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { buf.Close(); mem.Close() })
			all = append(all, descriptor{name, buf.FD(), size})
		}
	}
	return all
}

// grid calls f with registrations that break rules in every combination of few,
// the same ones each time.
func grid(t *testing.T, rounds int, f func(d descriptor, r umem.Request)) {
	all := descriptors(t)
	r := rand.New(rand.NewPCG(4, 7))
	pick := func(good uint64, bad ...uint64) uint64 {
		if r.IntN(3) > 0 {
			return good
		}
		return bad[r.IntN(len(bad))]
	}
	for range rounds {
		d := all[r.IntN(len(all))]
		var q umem.Request
		q.Offset = pick(d.size-4096, 0, 1, 128, 4096, d.size-1, d.size, 1<<32, 1<<63, math.MaxUint64-4095, math.MaxUint64)
		q.Length = pick(4096, 0, 1, 4095, 4097, d.size, d.size+1, 1<<63, math.MaxUint64-4095, math.MaxUint64)
		q.IOVA = pick(1<<40+q.Offset%4096, 0, 1, 1<<40, 1<<40+4096+q.Offset%4096, q.Offset%4096, math.MaxUint64-4095+q.Offset%4096, math.MaxUint64)
		q.Access = pick(umem.LocalWrite, 0, umem.RemoteRead, umem.RemoteWrite, umem.LocalWrite|umem.RemoteWrite|umem.RemoteRead,
			umem.LocalWrite|umem.RemoteAtomic, umem.RemoteAtomic, umem.LocalWrite|umem.RelaxedOrdering, umem.LocalWrite|1<<6,
			umem.LocalWrite|1<<21, umem.LocalWrite|1<<9, 1<<4)
		f(d, q)
	}
}

// foretold holds the replayed rules against the real kernel's answers.
func foretold(t *testing.T, device string, rounds int, what umem.Device) {
	dev, err := verbs.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	defer pd.Close()
	a, err := dev.Attr()
	if err != nil {
		t.Fatal(err)
	}
	before := verbs.Live()["mr"]
	answers := map[syscall.Errno]int{}
	rules := map[string]int{}
	wrong := 0
	grid(t, rounds, func(d descriptor, r umem.Request) {
		if wrong == 10 {
			return // enough to see what is the matter
		}
		call := r
		r.Gather(d.fd, device)
		r.Device.Access, r.Device.MaxMRSize, r.Device.PageSizes = what.Access, a.MaxMRSize, a.PageSizeCap
		if r.Device.Driver != what.Driver {
			t.Fatalf("driver %q, want %q", r.Device.Driver, what.Driver)
		}
		said := umem.Check(&r)
		want := umem.Errno(said)
		if want == 0 && r.IOVA+r.Length == 0 {
			return // whether 2^64 is a good end is the device's affair
		}
		mr, err := pd.RegisterDMABuf(d.fd, call.Offset, call.Length, call.IOVA, verbs.Access(call.Access))
		got := syscall.Errno(0)
		if err != nil {
			if !errors.As(err, &got) {
				t.Fatalf("no errno: %v", err)
			}
		} else if err := mr.Close(); err != nil {
			t.Fatal(err)
		}
		answers[got]++
		if got != want {
			wrong++
			t.Errorf("%s of %d bytes, offset %#x, length %#x, iova %#x, access %#x: the kernel says %v, foretold %v by %v",
				d.name, d.size, r.Offset, r.Length, r.IOVA, r.Access, got, want, umem.First(said))
		}
		if f := umem.First(said); f != nil {
			rules[f.Name]++
			// verbs knows less of the device than this test.
			if what.Driver != "efa" || f.Name != "efa access" {
				if got == want && !strings.Contains(err.Error(), f.String()) {
					t.Errorf("%v does not say %s", err, f)
				}
			}
		}
	})
	t.Logf("%d answers: %v; by rule: %v", rounds, answers, rules)
	if n := verbs.Live()["mr"]; n != before {
		t.Errorf("%d regions are left", n-before)
	}
}

func TestEFATheKernelAnswersAsForetold(t *testing.T) {
	names := os.Getenv("PEERDIRECT_EFA")
	if names == "" {
		t.Skip("needs a guest with an EFA device: peerdirect lab run --efa 1")
	}
	name, _, _ := strings.Cut(names, ",")
	dev, err := efa.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	access := uint64(umem.LocalWrite)
	if dev.Attr().Caps&efa.CapRead != 0 {
		access |= umem.RemoteRead
	}
	if dev.Attr().Caps&efa.CapWrite != 0 {
		access |= umem.RemoteWrite
	}
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	foretold(t, name, 1200, umem.Device{Driver: "efa", Access: access})
}

func TestTheKernelAnswersAsForetold(t *testing.T) {
	name := os.Getenv("PEERDIRECT_DEVICE")
	if name == "" {
		t.Skip("needs a guest with an RDMA device on its link: peerdirect lab run")
	}
	foretold(t, name, 200, umem.Device{Driver: umem.SoftwareDriver})
}

// The kernel counts a process's own memory against RLIMIT_MEMLOCK, and no
// dma-buf.
func TestEFAMemlockDoesNotCountForDMABufs(t *testing.T) {
	names := os.Getenv("PEERDIRECT_EFA")
	if names == "" {
		t.Skip("needs a guest with an EFA device: peerdirect lab run --efa 1")
	}
	if out, err := exec.Command("modprobe", "vgem").CombinedOutput(); err != nil {
		t.Fatalf("modprobe vgem: %v\n%s", err, out)
	}
	exporter, err := dmabuf.Open("vgem") // every kernel of the lab has it
	if err != nil {
		t.Fatal(err)
	}
	const size = 1 << 20
	mem, err := exporter.Allocate(size)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	buf, err := mem.Export(0, size)
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Close()
	own, err := verbs.NewBuffer(size, verbs.BufferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	name, _, _ := strings.Cut(names, ",")
	dev, err := verbs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	defer pd.Close()

	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		t.Fatal(err)
	}
	low := unix.Rlimit{Cur: 8192, Max: limit.Max}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &low); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit)

	done := make(chan struct{})
	go func() { // on a thread that ends with it, and its lost capability too
		defer close(done)
		runtime.LockOSThread()
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var caps [2]unix.CapUserData
		if err := unix.Capget(&head, &caps[0]); err != nil {
			t.Error(err)
			return
		}
		caps[unix.CAP_IPC_LOCK/32].Effective &^= 1 << (unix.CAP_IPC_LOCK % 32)
		if err := unix.Capset(&head, &caps[0]); err != nil {
			t.Error(err)
			return
		}
		if mr, err := pd.Register(own.Bytes(), verbs.LocalWrite); !errors.Is(err, syscall.ENOMEM) || !strings.Contains(err.Error(), "memlock limit is 8192") {
			t.Errorf("%d bytes by address: %v", size, err)
			if mr != nil {
				mr.Close()
			}
		}
		mr, err := pd.RegisterDMABuf(buf.FD(), buf.Offset, size, 0, verbs.LocalWrite)
		if err != nil {
			t.Errorf("%d bytes by dma-buf: %v", size, err)
			return
		}
		if err := mr.Close(); err != nil {
			t.Error(err)
		}
	}()
	<-done
}
