package mrcache_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer/mrcache"
)

func watched(t *testing.T, fork bool) *rig {
	t.Helper()
	g := newRig(t, mrcache.Options{Watch: true, Policy: mrcache.Policy{NoMerge: true}}, mrcache.Unlimited, mrcache.Limits{}, device.Options{})
	ok, lacks := g.Watching()
	if !ok {
		t.Skipf("needs a kernel that tells of host memory: %s", lacks)
	}
	if fork && lacks != "" {
		t.Skip(lacks)
	}
	return g
}

// TestWhatTheKernelTells: four pages are registered, each by itself; something
// happens to the second and third, and then they miss and the others hit.
func TestWhatTheKernelTells(t *testing.T) {
	for _, c := range []struct {
		name, cause string
		do          func(t *testing.T, g *rig, addr uint64)
	}{
		{"unmapped in the middle, and mapped anew", "unmap", func(t *testing.T, g *rig, addr uint64) {
			if err := unix.MunmapPtr(pointer(addr), 2*page); err != nil {
				t.Fatal(err)
			}
			g.a.forget(addr, 2*page)
			g.a.alloc(int(addr-g.a.base), 2*page)
		}},
		{"mapped over", "unmap", func(t *testing.T, g *rig, addr uint64) {
			g.a.unmap(addr, 2*page)
			g.a.alloc(int(addr-g.a.base), 2*page)
		}},
		{"moved away", "remap", func(t *testing.T, g *rig, addr uint64) {
			to := g.a.base + 2<<20
			if _, err := unix.MremapPtr(pointer(addr), 2*page, pointer(to), 2*page, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED); err != nil {
				t.Fatal(err)
			}
			g.a.forget(addr, 2*page)
			g.a.alloc(int(addr-g.a.base), 2*page)
		}},
		{"given back with madvise", "remove", func(t *testing.T, g *rig, addr uint64) {
			if err := unix.Madvise(at(addr, 2*page), unix.MADV_REMOVE); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := watched(t, false)
			base := g.a.alloc(0, 4*page)
			each := func() {
				for i := range uint64(4) {
					g.get(t, pool(0, base+i*page, page), local)
				}
			}
			each()
			each()
			if n := g.calls.Load(); n != 4 {
				t.Fatalf("%d registrations: watched memory is not kept: %+v", n, g.stats())
			}
			g.ranges()
			c.do(t, g, base+page)
			each()
			got := g.ranges()
			if len(got) != 2 || got[0].Addr != base+page || got[1].Addr != base+2*page {
				t.Errorf("registered again: %v", got)
			}
			if n := g.stats().Invalidations[c.cause]; n != 2 {
				t.Errorf("%+v", g.stats())
			}
			for i := range uint64(4) {
				ref := g.hold(t, pool(0, base+i*page, page), local)
				m := ref.Registration().(*pinnedMR)
				copy(at(base+i*page, page), fmt.Sprintf("what is there now, %d", i))
				if !bytes.Equal(m.mem, at(base+i*page, page)) {
					t.Errorf("page %d: what is registered is not what is there", i)
				}
				ref.Release()
			}
			for end := time.Now().Add(10 * time.Second); g.open.Load() != 4; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d are registered", g.open.Load())
				}
			}
		})
	}
}

func TestAForkIsTold(t *testing.T) {
	g := watched(t, true)
	base := g.a.alloc(0, page)
	g.get(t, pool(0, base, page), local)
	// fork returns when its event was read, which takes the scheduler: so the
	// scheduler is told of the call. A signal makes it begin again, and the
	// scheduler sends some.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var blocked, was unix.Sigset_t
	for i := range blocked.Val {
		blocked.Val[i] = ^blocked.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &blocked, &was); err != nil {
		t.Fatal(err)
	}
	defer unix.PthreadSigmask(unix.SIG_SETMASK, &was, nil)
	pid, _, errno := unix.Syscall6(unix.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	if pid == 0 {
		for {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	// The child may also stand in a scheduler that has no threads there.
	if err := unix.Kill(int(pid), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Wait4(int(pid), nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	g.get(t, pool(0, base, page), local)
	if s := g.stats(); s.Invalidations["fork"] != 1 || g.calls.Load() != 2 {
		t.Errorf("%+v, %d registrations", s, g.calls.Load())
	}
}

// os/exec does not copy the process's memory.
func TestACommandThatIsStartedTakesNothingOut(t *testing.T) {
	g := watched(t, false)
	base := g.a.alloc(0, page)
	g.get(t, pool(0, base, page), local)
	if err := exec.Command("/proc/self/exe", "-test.run=^$").Run(); err != nil {
		t.Fatal(err)
	}
	g.get(t, pool(0, base, page), local)
	if g.calls.Load() != 1 {
		t.Errorf("%+v", g.stats())
	}
}

// Anonymous memory that is watched behaves as before: pages that were never
// touched come as they are touched, by nobody's help.
func TestWatchedMemoryFaultsAsEver(t *testing.T) {
	g := watched(t, false)
	const n = 64
	mem, err := unix.Mmap(-1, 0, n*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	own := newCache(t, mrcache.Options{Watch: true, Rails: []mrcache.Rail{{Name: "own", Budget: mrcache.Unlimited,
		Registrar: mrcache.RegistrarFunc(func(r mrcache.Range, a mrcache.Access) (mrcache.Registration, error) {
			return g.nic.pd.RegisterAt(at(r.Addr, int(r.Length)), r.Addr, efa.Access(a))
		})}}})
	r := pool(0, uint64(uintptr(unsafe.Pointer(&mem[0]))), n*page)
	ref, err := own.Get(0, r, local)
	if err != nil {
		t.Fatal(err)
	}
	ref.Release()
	for i := range n {
		mem[i*page] = byte(i)
	}
	if err := unix.Madvise(mem[8*page:9*page], unix.MADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		want := byte(i)
		if i == 8 {
			want = 0
		}
		if mem[i*page] != want {
			t.Errorf("page %d has %d", i, mem[i*page])
		}
	}
	if s := own.Stats()[0]; s.Invalidations["remove"] != 1 {
		t.Errorf("%+v", s)
	}
}

func TestMemoryThatCannotBeWatchedIsNotKept(t *testing.T) {
	g := watched(t, false)
	var notes []string
	c := newCache(t, mrcache.Options{Watch: true, Trace: func(e mrcache.Event) { notes = append(notes, e.Note) }, Rails: []mrcache.Rail{{
		Name: "own", Budget: mrcache.Unlimited, Registrar: mrcache.RegistrarFunc(func(r mrcache.Range, a mrcache.Access) (mrcache.Registration, error) {
			return g.nic.pd.RegisterAt(at(r.Addr, int(r.Length)), r.Addr, efa.Access(a))
		})}}})
	file, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	mapped, err := unix.Mmap(int(file.Fd()), 0, page, unix.PROT_READ, unix.MAP_PRIVATE)
	file.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mapped)
	heap := make([]byte, 1<<20)
	for _, m := range []struct {
		name string
		addr *byte
		note string
	}{{"a file", &mapped[0], "of a file"}, {"Go's heap", &heap[page], "Go's heap"}} {
		notes = nil
		for range 2 {
			ref, err := c.Get(0, pool(0, uint64(uintptr(unsafe.Pointer(m.addr))), 16), local)
			if err != nil {
				t.Fatal(err)
			}
			ref.Release()
		}
		if s := c.Stats()[0]; s.Entries != 0 || !strings.Contains(notes[0], m.note) {
			t.Errorf("%s: %+v, %q", m.name, s, notes)
		}
	}
}

// As a user without privileges: unmapping is told, forks are not.
func TestWatchingWithoutPrivileges(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it takes root to become somebody else; the other tests have run without privileges")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "mrcache") // where others may go
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/test", b, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(dir+"/test", "-test.run=^(TestWhatTheKernelTells|TestAForkIsTold)$", "-test.v")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, w := range []string{"--- PASS: TestWhatTheKernelTells/unmapped", "CAP_SYS_PTRACE"} {
		if !strings.Contains(string(out), w) {
			t.Errorf("lacks %q:\n%s", w, out)
		}
	}
}
