package lab

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAcceleratorArguments(t *testing.T) {
	got := acceleratorArguments([]pcieSlot{{}, {bus: "accelport1.0"}}, 7, 128)
	want := []string{
		"-object", "memory-backend-file,id=accelerator0,size=128M,mem-path=/proc/self/fd/7,share=on",
		"-device", "ivshmem-plain,memdev=accelerator0",
		"-object", "memory-backend-file,id=accelerator1,size=128M,mem-path=/proc/self/fd/8,share=on",
		"-device", "ivshmem-plain,memdev=accelerator1,bus=accelport1.0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The memory is of files that are told from every other, and gone after the run.
func TestAcceleratorMemory(t *testing.T) {
	before := openFiles(t)
	m, err := Accelerators{Count: 3, Memory: 2}.allocate(2)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	for node := range 2 {
		if len(m.node(node)) != 3 {
			t.Fatalf("%d files", len(m.node(node)))
		}
		for _, f := range append(m.node(node), other) {
			info, err := f.Stat()
			if err != nil {
				t.Fatal(err)
			}
			st := info.Sys().(*syscall.Stat_t)
			if m.holds(st.Dev, st.Ino) != (f != other) {
				t.Errorf("%s: told apart wrongly", f.Name())
			}
			if f != other && info.Size() != 2<<20 {
				t.Errorf("%d bytes", info.Size())
			}
		}
	}
	other.Close()
	m.close()
	if after := openFiles(t); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
	none, err := Accelerators{}.allocate(2)
	if err != nil || none.holds(1, 2) || none.node(0) != nil {
		t.Error("accelerators that nobody asked for")
	}
	none.close()
}

func openFiles(t *testing.T) int {
	t.Helper()
	f, err := os.Open("/proc/self/fd") // the first opens the runtime's own, too
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// A module is of one root, one release and one source.
func TestModuleName(t *testing.T) {
	name := func(dir, release string) string {
		k, err := KernelBySeries("6.12")
		if err != nil {
			t.Fatal(err)
		}
		n, err := moduleName(&root{entry: &entry{dir: dir}, Kernel: k, Release: release})
		if err != nil || !strings.HasPrefix(n, "accel-6.12-") {
			t.Errorf("%q, %v", n, err)
		}
		return n
	}
	one := name("/cache/root-6.12-a", "6.12.1")
	for _, other := range []string{name("/cache/root-6.12-b", "6.12.1"), name("/cache/root-6.12-a", "6.12.2")} {
		if other == one {
			t.Error("two modules of one name")
		}
	}
	if name("/elsewhere/root-6.12-a", "6.12.1") != one {
		t.Error("the name depends on where the cache is")
	}
}
