package dmabuf

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// anyFD is a descriptor that stands for a dma-buf where only its life counts.
func anyFD(t testing.TB) int {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

func isOpen(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

func TestBuffersCloseByTheirRule(t *testing.T) {
	leavesNothing(t)
	for rule, c := range map[Closing]struct {
		refuses   bool // while a registration holds it
		openAfter bool
	}{
		CloseAnyTime:         {},
		CloseAfterDeregister: {refuses: true},
		CloseNever:           {openAfter: true},
	} {
		fd := anyFD(t)
		ended := 0
		b := newBuffer(fd, "test", 0, 1, rule)
		b.onClose = func() { ended++ }
		release, err := b.Hold()
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); c.refuses {
			refused(t, err, syscall.EBUSY, "deregister")
			if b.FD() != fd {
				t.Errorf("rule %d: descriptor %d after a refusal", rule, b.FD())
			}
		} else if err != nil {
			t.Errorf("rule %d: %v", rule, err)
		}
		release()
		for range 2 {
			if err := b.Close(); err != nil {
				t.Errorf("rule %d: %v", rule, err)
			}
		}
		if isOpen(fd) != c.openAfter || b.FD() != -1 || ended != 1 {
			t.Errorf("rule %d: open %v, FD %d, %d times ended", rule, isOpen(fd), b.FD(), ended)
		}
		if c.openAfter {
			unix.Close(fd)
		}
	}
}

// TestADescriptorThatNoNICSawIsClosed: no driver takes it back.
func TestADescriptorThatNoNICSawIsClosed(t *testing.T) {
	leavesNothing(t)
	fd := anyFD(t)
	b := newBuffer(fd, "neuron:0", 0, 1, CloseNever)
	for range 2 {
		if err := b.Close(); err != nil || isOpen(fd) {
			t.Errorf("%v, open %v", err, isOpen(fd))
		}
	}
}

func TestABufferOfOneImporterIsRegisteredOnce(t *testing.T) {
	b := newBuffer(anyFD(t), "neuron:0", 0, 1, CloseAnyTime)
	defer b.Close()
	b.OneImporter = true
	release, err := b.Hold()
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Hold()
	refused(t, err, syscall.EBUSY, "neuron:0", "export the memory once more")
	release()
	release()
	if release, err = b.Hold(); err != nil {
		t.Fatal(err)
	}
	release()
}

func TestADescriptorThatTheDriverTookBackIsNotUsedAgain(t *testing.T) {
	leavesNothing(t)
	fd := anyFD(t)
	b := newBuffer(fd, "neuron:0", 0, 1, CloseNever)
	b.OneImporter = true
	release, err := b.Hold()
	if err != nil {
		t.Fatal(err)
	}
	// The driver closes the descriptor with the registration, and something
	// else gets its number.
	other := anyFD(t)
	defer unix.Close(other)
	if err := unix.Dup3(other, fd, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	release()
	_, err = b.Hold()
	refused(t, err, ErrClosed)
	if b.FD() != -1 {
		t.Errorf("it still names descriptor %d", b.FD())
	}
	if err := b.Close(); err != nil || !isOpen(fd) {
		t.Errorf("close: %v, and what came after is open: %v", err, isOpen(fd))
	}
}

func TestCloseWaitsForWhoUsesTheDescriptor(t *testing.T) {
	b := newBuffer(anyFD(t), "test", 0, 1, CloseAnyTime)
	var done sync.WaitGroup
	for range 4 {
		done.Go(func() {
			for {
				err := b.use("test", func(fd int) error {
					if !isOpen(fd) {
						t.Error("closed under a user")
					}
					return nil
				})
				if err != nil {
					refused(t, err, ErrClosed)
					return
				}
			}
		})
	}
	time.Sleep(5 * time.Millisecond)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	done.Wait()
}

func TestWhatIsNoDMABufIsNotImported(t *testing.T) {
	leavesNothing(t)
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = Import(int(f.Fd()), 0, 0)
	refused(t, err, syscall.EINVAL, "no dma-buf", "exporter gave")
	closed := anyFD(t)
	unix.Close(closed)
	for _, fd := range []int{closed, -1, 1 << 20} {
		_, err = Import(fd, 0, 0)
		refused(t, err, syscall.EBADF, "not open", "unix socket")
	}
}

// lost gives the report of what lose makes and drops.
func lost(t *testing.T, lose func()) string {
	t.Helper()
	reports := make(chan string, 4)
	ReportLeaks(func(text string) { reports <- text })
	defer ReportLeaks(nil)
	lose()
	deadline := time.After(10 * time.Second)
	for {
		runtime.GC()
		select {
		case text := <-reports:
			return text
		case <-deadline:
			t.Fatal("no report")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestLostBuffersAreReported(t *testing.T) {
	leavesNothing(t)
	before, fd := Live()["buffer"], anyFD(t)
	text := lost(t, func() {
		newBuffer(anyFD(t), "test", 0, 1, CloseAnyTime).Close()
		newBuffer(fd, "udmabuf", 0, 1, CloseAnyTime)
	})
	if !strings.Contains(text, "buffer of udmabuf") || !strings.Contains(text, "buffer_test.go") {
		t.Errorf("reported %q", text)
	}
	// Nothing was closed by the report, and the count tells it too.
	if n := Live()["buffer"]; !isOpen(fd) || n != before+1 {
		t.Errorf("open %v, live %d", isOpen(fd), n)
	}
	unix.Close(fd)
	objects.Count("buffer", -1)
}

// Memory of an accelerator is watched as the host's is.
func TestLostMemoryIsReported(t *testing.T) {
	leavesNothing(t)
	root := t.TempDir()
	write(t, root, map[string]string{"dev/neuron0": ""})
	fd := -1
	text := lost(t, func() {
		m, err := (&neuronExporter{root, 0}).Adopt(1<<20, page)
		if err != nil {
			t.Fatal(err)
		}
		fd = m.(*neuronMemory).fd
	})
	if !strings.Contains(text, "memory of neuron:0, 4096 bytes") || !strings.Contains(text, "buffer_test.go") {
		t.Errorf("reported %q", text)
	}
	unix.Close(fd)
	objects.Count("memory", -1)
}
