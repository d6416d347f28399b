package umem

import (
	"math/big"
	"strings"
	"syscall"
	"testing"
)

// FuzzCheck: no input panics, nothing overflows, and whatever fails says why
// with both numbers.
func FuzzCheck(f *testing.F) {
	f.Add(uint64(8214528), uint64(1916853120), uint64(0x12397fd5800), uint64(7), uint64(20971520), uint64(0), uint64(0xfffff000), uint64(4096), uint64(0), uint64(7), "efa", "7.3.4", "udmabuf", uint8(1), uint64(0xf8000000))
	f.Add(^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), "mlx5", "6.12", "vfio_pci_core", uint8(7), ^uint64(0))
	f.Add(uint64(1)<<63, uint64(1)<<63, uint64(1), uint64(1), uint64(1)<<63, uint64(1), uint64(1)<<63, uint64(1)<<63, uint64(0), uint64(0), "irdma", ".", "", uint8(0), uint64(0))
	f.Fuzz(func(t *testing.T, offset, length, iova, access, size, maxMR, sizes, page, devAccess, seg uint64, driver, kernel, exporter string, state uint8, addr uint64) {
		r := Request{
			Offset: offset, Length: length, IOVA: iova, Access: access, DMAHandle: state&16 != 0,
			Buffer:   Buffer{State: State(state % 4), Size: size, Exporter: exporter},
			Device:   Device{Driver: driver, MaxMRSize: maxMR, PageSizes: sizes, Access: devAccess, Translated: state&32 != 0},
			Kernel:   kernel,
			PageSize: page,
		}
		if state&64 != 0 {
			r.Buffer.Segments = []Segment{{addr, seg}, {addr + seg, size}, {iova, offset}}
		}
		rules := Check(&r)
		for i := range rules {
			u := &rules[i]
			if u.Errno == 0 || u.Name == "" || u.Demand == "" || u.Where == "" || u.Verdict != Passed && u.Cause == "" {
				t.Errorf("%+v", u)
			}
			if u.Verdict == Failed && u.Errno == syscall.EINVAL && u.Name != "dma-buf" && len(u.Numbers) < 2 {
				t.Errorf("one side only: %+v", u)
			}
		}
		exact := new(big.Int).Add(new(big.Int).SetUint64(offset), new(big.Int).SetUint64(length))
		for i := range rules {
			u := &rules[i]
			switch u.Name {
			case "range":
				if (u.Verdict == Failed) == exact.IsUint64() {
					t.Errorf("%v of %v", u.Verdict, exact)
				}
			case "size":
				if fits := exact.Cmp(new(big.Int).SetUint64(size)) <= 0; u.Verdict == Passed && !fits || u.Verdict == Failed && fits {
					t.Errorf("%v of %v in %d", u.Verdict, exact, size)
				}
			}
		}
		for _, e := range []syscall.Errno{syscall.EINVAL, syscall.ENOMEM, syscall.EOPNOTSUPP, ENOTSUPP, syscall.Errno(state)} {
			if Explain(&r, e) == "" {
				t.Errorf("%v is not explained", e)
			}
		}
	})
}

func FuzzFDInfo(f *testing.F) {
	f.Add("pos:\t0\nflags:\t0100002\nmnt_id:\t15\nino:\t19\nsize:\t4096\ncount:\t2\nexp_name:\tudmabuf\nname:\tx\n")
	f.Add("exp_name:")
	f.Fuzz(func(t *testing.T, text string) {
		if name := exporterOf(text); strings.Contains(name, "\n") || !strings.Contains(text, "exp_name:") && name != "" {
			t.Errorf("%q of %q", name, text)
		}
	})
}
