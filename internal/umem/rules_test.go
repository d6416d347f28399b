package umem

import (
	"math"
	"strings"
	"syscall"
	"testing"
)

// good is a registration that breaks no rule, and of which everything is known.
func good() Request {
	return Request{
		Offset: 0x3000, Length: 0x5000, IOVA: 0x7f0000003000, Access: LocalWrite | RemoteRead | RemoteWrite,
		Buffer: Buffer{State: StateDMABuf, Size: 1 << 20, Exporter: "udmabuf"},
		Device: Device{Driver: "efa", MaxMRSize: 1 << 40, PageSizes: 0xfffff000, Access: LocalWrite | RemoteRead | RemoteWrite},
		Kernel: "7.3.4+deb13-amd64", PageSize: 4096,
	}
}

func TestAGoodRegistrationPassesEveryRule(t *testing.T) {
	for _, driver := range importers() {
		r := good()
		r.Device.Driver = driver
		for _, u := range Check(&r) {
			if u.Verdict != Passed {
				t.Errorf("%s: %s is %s: %s", driver, u.Name, u.Verdict, u.Cause)
			}
		}
		if e := Errno(Check(&r)); e != 0 {
			t.Errorf("%s: %v", driver, e)
		}
	}
}

// Each case breaks one rule of a good registration.
func TestTheFirstFailingRuleIsTheKernelsAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*Request)
		rule  string
		errno syscall.Errno
		words string
	}{
		"no call":                  {func(r *Request) { r.Kernel = "5.11.22" }, "call", syscall.EPROTONOSUPPORT, "5.12"},
		"rxe":                      {func(r *Request) { r.Device.Driver = "rxe" }, "driver", syscall.EOPNOTSUPP, "rxe imports no dma-bufs"},
		"software":                 {func(r *Request) { r.Device.Driver = SoftwareDriver }, "driver", syscall.EOPNOTSUPP, "without hardware"},
		"mana of 6.12":             {func(r *Request) { r.Device.Driver, r.Kernel = "mana", "6.12.117" }, "driver", syscall.EOPNOTSUPP, "7.3 or newer"},
		"efa of 5.15":              {func(r *Request) { r.Kernel = "5.15.0-generic" }, "driver", syscall.EOPNOTSUPP, "6.1 or newer"},
		"offset in the page":       {func(r *Request) { r.Offset += 128 }, "page offset", syscall.EINVAL, "byte 128"},
		"iova in the page":         {func(r *Request) { r.IOVA += 1 }, "page offset", syscall.EINVAL, "byte 1"},
		"64K pages":                {func(r *Request) { r.PageSize = 65536; r.IOVA += 0x1000 }, "page offset", syscall.EINVAL, "mod"},
		"on demand":                {func(r *Request) { r.Access |= 1 << 6 }, "access bits", syscall.EINVAL, "ON_DEMAND"},
		"an optional bit":          {func(r *Request) { r.Access |= 1 << 21 }, "access bits", syscall.EINVAL, "0x200000"},
		"a bit above 32":           {func(r *Request) { r.Access |= 1 << 40 }, "access bits", syscall.EINVAL, "0x10000000000"},
		"no local write":           {func(r *Request) { r.Access = RemoteWrite }, "local write", syscall.EINVAL, "add LOCAL_WRITE"},
		"atomics, no local write":  {func(r *Request) { r.Access = RemoteAtomic }, "local write", syscall.EINVAL, "add LOCAL_WRITE"},
		"atomics":                  {func(r *Request) { r.Access |= RemoteAtomic }, "efa access", syscall.EOPNOTSUPP, "no atomics"},
		"no RDMA write":            {func(r *Request) { r.Device.Access = LocalWrite | RemoteRead }, "efa access", syscall.EOPNOTSUPP, "REMOTE_WRITE"},
		"RDMA write on 6.1":        {func(r *Request) { r.Kernel = "6.1.0-57-amd64" }, "efa access", syscall.EOPNOTSUPP, "REMOTE_WRITE"},
		"a DMA handle":             {func(r *Request) { r.DMAHandle = true }, "DMA handle", syscall.EOPNOTSUPP, "efa takes no DMA handle"},
		"overflow":                 {func(r *Request) { r.Length = math.MaxUint64 - 0x2000 }, "range", syscall.EINVAL, "2^64"},
		"a closed descriptor":      {func(r *Request) { r.Buffer.State = StateBad }, "descriptor", syscall.EBADF, "not open"},
		"a pipe":                   {func(r *Request) { r.Buffer.State = StateOther }, "dma-buf", syscall.EINVAL, "another kind"},
		"past the end":             {func(r *Request) { r.Length = 1 << 20 }, "size", syscall.EINVAL, "offset 12288 + length 1048576 = 1060864, the buffer has 1048576 bytes (1 MiB)"},
		"no bytes":                 {func(r *Request) { r.Length = 0 }, "length", syscall.EINVAL, "0 pages"},
		"no bytes after alignment": {func(r *Request) { r.Offset, r.Length, r.Buffer.Size, r.IOVA = 0, math.MaxUint64-100, 0, 0 }, "length", syscall.EINVAL, "0 pages"},
		"vfio":                     {func(r *Request) { r.Buffer.Exporter = "vfio_pci_core" }, "exporter", syscall.EOPNOTSUPP, "efa pins for good"},
		"iova at the end":          {func(r *Request) { r.IOVA = math.MaxUint64 - 0xfff; r.Offset = 0 }, "page size", syscall.EOPNOTSUPP, "2^64"},
		"max_mr_size":              {func(r *Request) { r.Device.MaxMRSize = 4096 }, "device limit", syscall.ENOMEM, "4096 bytes (4 KiB)"},
		"irdma's max_mr_size": {func(r *Request) { r.Device = Device{Driver: "irdma", MaxMRSize: 4096}; r.Buffer.State = StateBad },
			"irdma length", syscall.EINVAL, "max_mr_size"},
		"bnxt_re's own limit": {func(r *Request) {
			r.Device = Device{Driver: "bnxt_re"}
			r.Length, r.Buffer.Size = 1<<40, 1<<41
		}, "bnxt_re length", syscall.ENOMEM, "512 GiB"},
		"mlx5 and iova": {func(r *Request) { r.Device.Driver = "mlx5"; r.IOVA = math.MaxUint64 - 0xfff; r.Offset = 0 }, "page size", syscall.EINVAL, "2^64"},
		"pieces that do not fit": {func(r *Request) {
			r.Device.PageSizes = 2 << 20
			r.Buffer.Segments = []Segment{{0x100000, 1 << 20}}
		}, "page size", syscall.EOPNOTSUPP, "modulo 2097152"},
	} {
		t.Run(name, func(t *testing.T) {
			r := good()
			c.spoil(&r)
			f := First(Check(&r))
			if f == nil {
				t.Fatal("every rule passes")
			}
			if f.Name != c.rule || f.Errno != c.errno || !strings.Contains(f.String(), c.words) {
				t.Errorf("%v by %s; want %v by %s with %q", f.Errno, f, c.errno, c.rule, c.words)
			}
			if text := Explain(&r, c.errno); text != f.String() {
				t.Errorf("explained as %s", text)
			}
		})
	}
}

// What fails earlier in the kernel hides what fails later.
func TestRulesAreInTheKernelsOrder(t *testing.T) {
	r := good()
	r.Buffer = Buffer{State: StateOther}
	steps := []struct {
		spoil func()
		rule  string
	}{
		{func() {}, "dma-buf"},
		{func() { r.Buffer.State = StateBad }, "descriptor"},
		{func() { r.Length = math.MaxUint64 }, "range"},
		{func() { r.Access |= RemoteAtomic }, "efa access"},
		{func() { r.DMAHandle = true }, "DMA handle"},
		{func() { r.Access &^= LocalWrite }, "local write"},
		{func() { r.Access |= 1 << 5 }, "access bits"},
		{func() { r.IOVA++ }, "page offset"},
		{func() { r.Kernel = "5.15.0" }, "driver"},
		{func() { r.Kernel = "5.4.0" }, "call"},
	}
	for _, s := range steps {
		s.spoil()
		if f := First(Check(&r)); f == nil || f.Name != s.rule {
			t.Errorf("the first failure is %v, want %s", f, s.rule)
		}
	}
}

func TestWhatIsNotKnownIsNotJudged(t *testing.T) {
	r := Request{Length: 4096, Access: LocalWrite}
	for _, u := range Check(&r) {
		if u.Verdict == Failed {
			t.Errorf("%v", &u)
		}
		if u.Verdict == Unknown && u.Cause == "" {
			t.Errorf("%s is unknown for no reason", u.Name)
		}
	}
	for _, c := range []struct{ driver, kernel string }{
		{"irdma", "6.6.0"},                      // between what was read
		{"efa", "5.14.0-427.13.1.el9_4.x86_64"}, // a distribution that takes newer drivers
		{"rxe", "8.1.0"}, {"new", "7.3.0"}, {"mlx5", ""}, {"mlx5", "linux"},
	} {
		r := good()
		r.Device.Driver, r.Kernel = c.driver, c.kernel
		for _, u := range Check(&r) {
			if u.Name == "driver" && u.Verdict != Unknown {
				t.Errorf("%s of %q is %s: %s", c.driver, c.kernel, u.Verdict, u.Cause)
			}
		}
	}
}

func TestWhoImportsVFIO(t *testing.T) {
	for _, c := range []struct {
		driver, kernel string
		want           Verdict
	}{
		{"mlx5", "7.3.0", Passed}, {"irdma", "7.3.0", Passed}, {"irdma", "6.12.0", Failed}, {"efa", "7.3.0", Failed},
		{"bnxt_re", "7.3.0", Failed}, {"mana", "7.3.0", Failed}, {"", "7.3.0", Unknown},
	} {
		r := good()
		r.Device.Driver, r.Kernel, r.Buffer.Exporter = c.driver, c.kernel, "vfio_pci_core"
		for _, u := range Check(&r) {
			if u.Name == "exporter" && (u.Verdict != c.want || u.Errno != syscall.EOPNOTSUPP) {
				t.Errorf("%s of %s: %s", c.driver, c.kernel, u.Verdict)
			}
		}
	}
}

func TestNoErrorIsWithoutAReason(t *testing.T) {
	r := good()
	for errno, words := range map[syscall.Errno][]string{
		syscall.EINVAL:     {"every rule", "dmesg"},
		syscall.EOPNOTSUPP: {"every rule"},
		syscall.ENOMEM:     {"not the memlock limit", "20480 bytes (20 KiB) of 1099511627776 bytes (1 TiB)", "no room", "could not map", KernelLog[0], KernelLog[1], KernelLog[2]},
		ENOTSUPP:           {"exporter refused", "without that flag"},
		syscall.EPERM:      {"udmabuf", "peer-to-peer", "second"},
		syscall.ENODEV:     {"udmabuf", "gone"},
		syscall.EBUSY:      {"cannot move"},
		syscall.EREMOTEIO:  {"no path for peer-to-peer", KernelLog[0]},
		syscall.EIO:        {"dmesg"},
	} {
		text := Explain(&r, errno)
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("%v: %q lacks %q", errno, text, w)
			}
		}
	}
	r.Device.Translated, r.Length, r.Buffer.Size = true, 63<<30, 64<<30
	if text := Explain(&r, syscall.ENOMEM); !strings.Contains(text, "pieces of 1 GiB") {
		t.Error(text)
	}
	// Nothing is known but the errno: what it leaves open is listed.
	open := Request{Length: 4096, Access: LocalWrite}
	if text := Explain(&open, syscall.EINVAL); !strings.Contains(text, "the buffer reaches to offset + length (not known: the buffer's size)") {
		t.Error(text)
	}
}

func TestSizesAreExact(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 bytes", 1: "1 byte", 4095: "4095 bytes", 4096: "4096 bytes (4 KiB)", 20971520: "20971520 bytes (20 MiB)",
		3 << 40: "3298534883328 bytes (3 TiB)", math.MaxUint64: "18446744073709551615 bytes",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

func TestKernelReleases(t *testing.T) {
	for text, want := range map[string]version{
		"7.3.4+deb13-amd64": {7, 3}, "6.12.117": {6, 12}, "6.1.0-57-amd64": {6, 1}, "5.14.0-427.el9": {5, 14}, "6.18-rc1": {6, 18},
		"": {}, "linux": {}, "-3.1": {}, "6.": {}, "6": {}, "99999999999999999999.1": {}, "6.99999999999999999999": {},
	} {
		if got, _ := parseVersion(text); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}
