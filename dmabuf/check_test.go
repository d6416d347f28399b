package dmabuf

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/peerdirect/peerdirect/internal/umem"
)

func TestADescriptorSpeaksForItself(t *testing.T) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	defer to.Close()
	for name, c := range map[string]struct {
		fd    int
		rule  string
		errno syscall.Errno
	}{
		"none":   {-1, "descriptor", syscall.EBADF},
		"closed": {1 << 20, "descriptor", syscall.EBADF},
		"a pipe": {int(from.Fd()), "dma-buf", syscall.EINVAL},
	} {
		r := Check(CheckOptions{Length: 4096, Access: rw, FD: &c.fd, Kernel: "7.3.0"})
		if f := r.Failing(); f == nil || f.Name != c.rule || f.Errno != c.errno {
			t.Errorf("%s: %+v", name, f)
		}
		var e *Error
		if err := r.Err(); !errors.As(err, &e) || !errors.Is(err, c.errno) || !strings.Contains(e.Detail, c.rule) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNothingIsWarnedOfInAGoodRegistration(t *testing.T) {
	for name, o := range map[string]CheckOptions{
		"whole":                         {Length: 64 << 20, IOVA: 0x7f0000a30000, BufferSize: 64 << 20},
		"a piece":                       {Offset: 0x10000, Length: 4096, IOVA: 0x7f0000010000, BufferSize: 2 << 20, Address: 0x7f0000010000, Base: 0x7f0000000000},
		"a piece of a piece":            {Offset: 0x11000, Length: 4096, IOVA: 0x7f0000010000, BufferSize: 2 << 20, Address: 0x7f0000010000, Base: 0x7f0000000000, BaseOffset: 0x1000},
		"the start":                     {Length: 4096, IOVA: 0x7f0000000000, BufferSize: 2 << 20, Address: 0x7f0000000000, Base: 0x7f0000000000},
		"the start of a large page":     {Length: 1 << 20, IOVA: 0x7f0000200000, BufferSize: 64 << 20, Exporter: "nv_dmabuf"},
		"host memory has any address":   {Length: 4096, IOVA: 0x7f0000001000, BufferSize: 64 << 20, Exporter: "udmabuf"},
		"an address of no one's choice": {Length: 4096, BufferSize: 64 << 20},
	} {
		o.Access, o.Driver, o.Kernel = rw, "mlx5", "7.3.0"
		r := Check(o)
		if r.Err() != nil || len(r.Warnings) > 0 {
			t.Errorf("%s: %v, %+v", name, r.Err(), r.Warnings)
		}
	}
}

// FuzzWarnings: no numbers make the warnings panic or overflow.
func FuzzWarnings(f *testing.F) {
	f.Add(uint64(0x1000), uint64(4096), uint64(0x7f0000021000), uint64(2<<20), uint64(0x7f0000021000), uint64(0x7f0000000000), uint64(0), uint64(4096))
	f.Add(^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0))
	f.Add(uint64(0), uint64(1), uint64(1), uint64(1), uint64(0), uint64(1), uint64(1), uint64(0))
	f.Fuzz(func(t *testing.T, offset, length, iova, size, address, base, baseOffset, page uint64) {
		o := CheckOptions{
			Offset: offset, Length: length, IOVA: iova, Access: rw, BufferSize: size, Driver: "mlx5", Kernel: "7.3.0",
			Address: address, Base: base, BaseOffset: baseOffset, PageSize: page,
		}
		p := o
		p.Offset, p.IOVA = o.IOVA, o.Offset
		for _, r := range CheckAll([]CheckOptions{o, p, o}) {
			for _, w := range r.Warnings {
				if w.Name == "" || w.Cause == "" || w.Remedy == "" {
					t.Errorf("%+v", w)
				}
			}
			if f := r.Failing(); (f == nil) != (r.Err() == nil) {
				t.Errorf("%v, %v", f, r.Err())
			}
		}
	})
}

func TestWhoImports(t *testing.T) {
	has := map[string]string{"mlx5": "5.15", "efa": "6.1", "irdma": "6.12", "bnxt_re": "6.12", "mana": "7.3", "ionic": "7.3"}
	for _, i := range Importers() {
		if i.Has != has[i.Driver] || (i.Has == "") == (i.How != "") {
			t.Errorf("%+v", i)
		}
		delete(has, i.Driver)
	}
	if len(has) > 0 || len(KernelLog()) != len(umem.KernelLog) {
		t.Errorf("missing: %v", has)
	}
}
