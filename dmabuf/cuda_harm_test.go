package dmabuf

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/internal/cuda"
)

// TestCUDARawContexts: which context has to be current.
func TestCUDARawContexts(t *testing.T) {
	x, d := needCUDA(t)
	ctx := primary(t, d)
	other, err := d.CreateContext()
	if err != nil {
		t.Fatal(err)
	}
	mine, err := ctx.Alloc(64 << 10)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := other.Alloc(64 << 10)
	if err != nil {
		t.Fatal(err)
	}
	logPointer(t, "of the primary context", mine)
	logPointer(t, "of another context", theirs)
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and the thread ends with the goroutine
		if raw(t, "no current context", 0, mine, 64<<10, 0) == nil {
			t.Error("an export without a current context succeeded: the package need not set one")
		}
		raw(t, "with the context", ctx, mine, 64<<10, 0)
		raw(t, "no current context again", 0, mine, 64<<10, 0)
	}()
	<-done
	raw(t, "memory of another context in the primary", ctx, theirs, 64<<10, 0)
	raw(t, "memory of the primary in another context", other, mine, 64<<10, 0)
	raw(t, "memory of another context in its own", other, theirs, 64<<10, 0)
	m, err := x.Adopt(theirs, 64<<10)
	if err != nil {
		t.Fatalf("adopt of memory of another context: %v", err)
	}
	copies(t, m)
	b, err := m.Export(0, 64<<10)
	if err != nil {
		t.Fatalf("export of memory of another context: %v", err)
	}
	if err := other.Destroy(); err != nil {
		t.Error(err)
	}
	info, err := b.Info()
	t.Logf("the buffer after its context was destroyed: %+v, %v", info, err)
	b.Close()
	_, err = m.Export(0, 64<<10)
	t.Logf("export after the context was destroyed: %v", err)
	if err == nil {
		t.Error("memory of a destroyed context was exported")
	}
	_, err = m.Identity()
	t.Logf("identity after the context was destroyed: %v", err)
	_, err = m.ReadAt(make([]byte, 1), 0)
	t.Logf("read after the context was destroyed: %v", err)
	if err := errors.Join(m.Close(), ctx.Free(mine)); err != nil {
		t.Error(err)
	}
}

func TestCUDAWrongDevice(t *testing.T) {
	x, d := needCUDA(t)
	if n, _ := cuda.Devices(); n < 2 {
		t.Skip("needs a second GPU")
	}
	second, err := cuda.GetDevice(1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, ctx2 := primary(t, d), primary(t, second)
	p, err := ctx2.Alloc(64 << 10)
	if err != nil {
		t.Fatal(err)
	}
	raw(t, "memory of GPU 1 with GPU 0's context", ctx, p, 64<<10, 0)
	_, err = x.Adopt(p, 64<<10)
	t.Logf("adopt by the wrong GPU: %v", err)
	if !errors.Is(err, unix.EINVAL) {
		t.Error("it was not refused")
	}
	if err := ctx2.Free(p); err != nil {
		t.Error(err)
	}
}

// TestCUDAHarm asks for what may bring the driver down, each in a process of
// its own.
func TestCUDAHarm(t *testing.T) {
	_, d := needCUDA(t)
	for name, f := range map[string]func(t *testing.T, d cuda.Device, ctx cuda.Context){
		"freed": harmFreed, "managed": harmManaged, "host": harmHost, "reset": harmReset, "descriptors": harmDescriptors,
		"destroyed": harmDestroyed,
	} {
		const variable = "PEERDIRECT_CUDA_HARM"
		if os.Getenv(variable) == name {
			f(t, d, primary(t, d))
			continue
		}
		if os.Getenv(variable) != "" {
			continue
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestCUDAHarm$", "-test.v", "-test.timeout=60s")
		cmd.Env = append(os.Environ(), variable+"="+name)
		out, err := cmd.CombinedOutput()
		// A crash prints every goroutine: its first lines tell.
		t.Logf("%s: ended with %v\n%s", name, err, out[:min(len(out), 3000)])
		if err != nil && name != "destroyed" { // which the driver does not survive
			t.Errorf("%s: %v", name, err)
		}
	}
}

func harmDestroyed(t *testing.T, d cuda.Device, ctx cuda.Context) {
	other, err := d.CreateContext()
	if err != nil {
		t.Fatal(err)
	}
	p, err := ctx.Alloc(64 << 10)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("destroy: %v", other.Destroy())
	raw(t, "with a context that was destroyed", other, p, 64<<10, 0)
}

func harmFreed(t *testing.T, d cuda.Device, ctx cuda.Context) {
	for _, size := range []uint64{64 << 10, 64 << 20} {
		p, err := ctx.Alloc(size)
		if err != nil {
			t.Fatal(err)
		}
		if err := ctx.Free(p); err != nil {
			t.Fatal(err)
		}
		raw(t, "freed", ctx, p, size, 0)
	}
}

func harmManaged(t *testing.T, d cuda.Device, ctx cuda.Context) {
	p, err := ctx.AllocManaged(2 << 20)
	if err != nil {
		t.Fatal(err)
	}
	raw(t, "managed", ctx, p, 2<<20, 0)
}

func harmHost(t *testing.T, d cuda.Device, ctx cuda.Context) {
	p, err := ctx.AllocHost(2 << 20)
	if err != nil {
		t.Fatal(err)
	}
	raw(t, "page-locked", ctx, p, 2<<20, 0)
}

func harmReset(t *testing.T, d cuda.Device, ctx cuda.Context) {
	m, err := CUDA(0).Allocate(64 << 10)
	if err != nil {
		t.Fatal(err)
	}
	b, err := m.Export(0, 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("reset: %v", d.ResetPrimary())
	info, err := b.Info()
	t.Logf("the buffer after the reset: %+v, %v", info, err)
	_, err = m.Export(0, 64<<10)
	t.Logf("export after the reset: %v", err)
	if !errors.Is(err, ErrClosed) {
		t.Error("its class is another")
	}
	_, err = m.Identity()
	t.Logf("identity after the reset: %v", err)
	_, err = m.ReadAt(make([]byte, 1), 0)
	t.Logf("read after the reset: %v", err)
	t.Logf("close after the reset: %v, of the buffer %v", m.Close(), b.Close())
}

func harmDescriptors(t *testing.T, d cuda.Device, ctx cuda.Context) {
	m, err := CUDA(0).Allocate(64 << 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(descriptors(t) + 20), Max: 4096}); err != nil {
		t.Fatal(err)
	}
	var held []*Buffer
	for range 100 {
		b, err := m.Export(0, 64<<10)
		if err != nil {
			t.Logf("after %d exports: %v", len(held), err)
			if !strings.Contains(err.Error(), "ulimit") {
				t.Error("it is not explained")
			}
			break
		}
		held = append(held, b)
	}
	if len(held) == 100 {
		t.Error("no export failed")
	}
	for _, b := range held {
		b.Close()
	}
	t.Logf("close: %v", m.Close())
}
