//go:build lab

package dmabuf

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestImportedBuffersAreTheSameMemory(t *testing.T) {
	eachExporter(t, func(t *testing.T, e Exporter) {
		m := made[Memory](t)(e.Allocate(2 * page))
		want := pattern(2*page, 3)
		m.WriteAt(want, 0)
		b := made[*Buffer](t)(m.Export(0, 2*page))
		i := made[*Buffer](t)(Import(b.FD(), b.Offset+page, 100))
		if i.FD() == b.FD() || i.Length != 100 || i.Exporter == "" {
			t.Errorf("%+v", i)
		}
		all := made[*Buffer](t)(Import(b.FD(), page, 0))
		info, err := b.Info()
		if err != nil || all.Length != info.Size-page {
			t.Errorf("the rest is %d bytes, %v", all.Length, err)
		}
		same, err := i.Info()
		if err != nil || same.Inode != info.Inode {
			t.Errorf("inode %d and %d, %v", same.Inode, info.Inode, err)
		}
		_, err = Import(b.FD(), info.Size-10, 11)
		refused(t, err, ErrRange, "of 8192")
		_, err = Import(b.FD(), info.Size, 0)
		refused(t, err, ErrRange)
		// The caller's descriptor may go.
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		data := view(t, i)
		cpu(t, i, CPURead, func() {
			if !bytes.Equal(data[i.Offset:i.Offset+100], want[page:page+100]) {
				t.Error("other bytes")
			}
		})
	})
}

func TestHeldBuffersAreSeenByInodeAndName(t *testing.T) {
	eachExporter(t, func(t *testing.T, e Exporter) {
		m := made[Memory](t)(e.Allocate(page))
		b := made[*Buffer](t)(m.Export(0, page))
		for _, name := range []string{"first", "weights of layer 7, part 1 of 2"} {
			if err := b.SetName(name); err != nil {
				t.Fatal(err)
			}
			info, err := b.Info()
			if err != nil || info.Name != name {
				t.Errorf("%+v, %v", info, err)
			}
		}
		refused(t, b.SetName("thirty-two bytes are one too many"), syscall.EINVAL, "31")
		info, _ := b.Info()
		view(t, b)
		held, err := HeldBy("/", os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(held, func(h Held) bool { return h.Inode == info.Inode })
		if i < 0 {
			t.Fatalf("%d is not among %+v", info.Inode, held)
		}
		h := held[i]
		if h.Exporter != info.Exporter || h.Size != page || h.Name != info.Name || !slices.Contains(h.FDs, b.FD()) || len(h.Mappings) == 0 {
			t.Errorf("%+v, and the buffer is %+v", h, info)
		}
	})
}

func TestUdmabufSaysWhatTheDriverDoesNot(t *testing.T) {
	e := exporter(t, "udmabuf")
	leavesNothing(t)
	const parameter = "/sys/module/udmabuf/parameters/size_limit_mb"
	before, err := os.ReadFile(parameter)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(parameter, []byte("1\n"), 0); err != nil {
		t.Fatal(err)
	}
	defer os.WriteFile(parameter, before, 0)
	_, err = e.Allocate(1<<20 + 1)
	refused(t, err, syscall.EINVAL, "at most 1 MiB", parameter)
	made[Memory](t)(e.Allocate(1 << 20))
	// Memory of exporter memfd is not bound by it, only each export is.
	m := made[Memory](t)(exporter(t, "memfd").Allocate(3 << 20))
	_, err = m.Export(0, 3<<20)
	refused(t, err, syscall.EINVAL, "at most 1 MiB", "export parts")
	for part := range uint64(3) {
		made[*Buffer](t)(m.Export(part<<20, 1<<20))
	}
	fd, err := unix.MemfdCreate("bare", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	unix.Ftruncate(fd, page)
	for _, c := range []struct {
		offset, size uint64
		word         string
	}{{0, page, "lacks the seal"}, {1, page, "whole pages"}} {
		_, err := createUdmabuf("/", "udmabuf", fd, c.offset, c.size)
		refused(t, err, syscall.EINVAL, c.word)
	}
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = createUdmabuf("/", "udmabuf", int(f.Fd()), 0, page)
	refused(t, err, syscall.EBADFD, "no memfd")
}

// Memory that another process made arrives as a descriptor, or was mapped
// before and is known by its address.
func TestMemoryOfAnotherProcessIsExported(t *testing.T) {
	exporter(t, "memfd")
	leavesNothing(t)
	fd, data, err := newMemfd("test", 4*page)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(data)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(fd), nil, 0); err != nil {
		t.Fatal(err)
	}
	unix.Close(fd) // what is left of it is on its way
	oob := make([]byte, 64)
	_, n, _, _, err := unix.Recvmsg(pair[1], make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	messages, _ := unix.ParseSocketControlMessage(oob[:n])
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		t.Fatal(err)
	}
	want := pattern(4*page, 5)
	copy(data, want)
	m := made[Memory](t)(AdoptMemfd(fds[0]))
	unix.Close(fds[0])
	check := func(b *Buffer, from int) {
		t.Helper()
		bytesOf := view(t, b)
		cpu(t, b, CPURead, func() {
			if !bytes.Equal(bytesOf[b.Offset:b.Offset+b.Length], want[from:from+int(b.Length)]) {
				t.Error("other bytes")
			}
		})
	}
	b := made[*Buffer](t)(m.Export(page+7, page))
	check(b, page+7)
	if b.Offset != 7 {
		t.Errorf("offset %d", b.Offset)
	}
	if len(m.(*memfdMemory).openExports()) != 1 {
		t.Error("the export is not known to its memory")
	}
	// No descriptor of it is left here but m's; without that, the mapping
	// leads to it.
	for range 2 {
		at := made[Memory](t)((&memfd{"/"}).Adopt(addressOf(data)+2*page+1, 100))
		x := made[*Buffer](t)(at.Export(9, 91))
		check(x, 2*page+10)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGraphicsCardsExportTheirDumbBuffers(t *testing.T) {
	exporter(t, "vgem")
	leavesNothing(t)
	all := listCards("/")
	if len(all) == 0 {
		t.Fatal("no card")
	}
	for _, e := range all {
		if err := e.Available(); err != nil {
			t.Errorf("%v", err)
			continue
		}
		t.Logf("%s: %s", e.Name(), e.Describe())
		m := made[Memory](t)(e.Allocate(page))
		b := made[*Buffer](t)(m.Export(0, page))
		if info, err := b.Info(); err != nil || info.Exporter == "" {
			t.Errorf("%+v, %v", info, err)
		}
		_, err := e.Allocate(4 << 30)
		refused(t, err, syscall.EINVAL, "at most")
		_, err = e.Adopt(addressOf(m.Bytes()), page)
		refused(t, err, ErrUnsupported, "Import")
	}
	missing := fmt.Sprintf("card%d", len(all)+5)
	if _, err := os.Stat(filepath.Join("/dev/dri", missing)); err != nil {
		e, err := Open("drm:" + missing)
		if err != nil {
			t.Fatal(err)
		}
		refused(t, e.Available(), ErrNoDevice, "modprobe vgem")
	}
}
