package efa

import (
	"bytes"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/efa/wire"
)

// An embedded device takes what the kernel's driver would, and refuses the rest
// with the kernel's error and its reason.
func TestAnEmbeddedDeviceRefusesADMABufAsTheKernelWould(t *testing.T) {
	f := fabric(t, device.FabricOptions{})
	dev := must[*Device](t)(Embedded(f, device.Options{Caps: wire.CapRDMARead | wire.CapRDMAWrite}))
	readOnly := must[*Device](t)(Embedded(f, device.Options{Caps: wire.CapRDMARead}))
	page := uint64(os.Getpagesize())
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, int64(4*page)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		dev                  *Device
		fd                   int
		offset, length, iova uint64
		access               Access
		class                error
		words                []string
	}{
		"descriptor":    {dev, -1, 0, page, 0, LocalWrite, syscall.EBADF, []string{"descriptor: ", "not open"}},
		"page offset":   {dev, fd, 128, page, 0, LocalWrite, syscall.EINVAL, []string{"page offset: ", "at byte 128", "at byte 0"}},
		"local write":   {dev, fd, 0, page, 0, RemoteWrite, syscall.EINVAL, []string{"local write: ", "add LOCAL_WRITE"}},
		"access bits":   {dev, fd, 0, page, 0, LocalWrite | 1<<6, syscall.EINVAL, []string{"access bits: ", "ON_DEMAND"}},
		"atomics":       {dev, fd, 0, page, 0, LocalWrite | 1<<3, ErrUnsupported, []string{"efa access: ", "no atomics"}},
		"no RDMA write": {readOnly, fd, 0, page, 0, LocalWrite | RemoteWrite, ErrUnsupported, []string{"efa access: ", "REMOTE_WRITE"}},
		"range":         {dev, fd, 1 << 63, 1 << 63, 0, LocalWrite, syscall.EINVAL, []string{"range: ", "2^64"}},
		"iova":          {dev, fd, 0, 2 * page, -page, LocalWrite, ErrUnsupported, []string{"page size: ", "2^64"}},
		"size":          {dev, fd, 4 * page, page, 0, LocalWrite, syscall.EINVAL, []string{"bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := Live()["mr"]
			_, err := c.dev.RegisterDMABuf(c.fd, c.offset, c.length, c.iova, c.access)
			refused(t, err, c.class, c.words...)
			if n := Live()["mr"]; n != before {
				t.Errorf("%d regions are left", n-before)
			}
		})
	}
	mr := must[*MR](t)(dev.RegisterDMABuf(fd, page, page, 1<<40+page, LocalWrite|RemoteWrite))
	src := must[*MR](t)(dev.Register(memory(t, int(page)), LocalWrite))
	fill(src.mem, 9)
	ep := must[*Endpoint](t)(dev.CreateSRD(SRDOptions{}))
	a := ep.Address()
	to := must[*AH](t)(dev.CreateAH(a.GID)).To(a.QPN, a.QKey)
	b := ep.Batch()
	defer b.Close()
	b.Write(to, src.At(0, uint32(page)), mr.Remote().At(0), 1)
	post(t, b)
	if c := complete(t, ep, 1)[0]; c.Status != StatusOK {
		t.Fatalf("%+v", c)
	}
	got := make([]byte, 4*page)
	if _, err := unix.Pread(fd, got, 0); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got[page:2*page], src.mem) || bytes.Count(got, []byte{0})-bytes.Count(src.mem, []byte{0}) != int(3*page) {
		t.Error("the page is not where it belongs")
	}
}
