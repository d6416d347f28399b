package dmabuf

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/peerdirect/peerdirect/internal/umem"
	"golang.org/x/sys/unix"
)

const rw = umem.LocalWrite | umem.RemoteRead | umem.RemoteWrite

// chunks are pieces of 4 MiB of one buffer, whose offsets and addresses f sets.
func chunks(n int, f func(i int, o *CheckOptions)) []CheckOptions {
	all := make([]CheckOptions, n)
	for i := range all {
		all[i] = CheckOptions{
			Offset: uint64(i) << 22, Length: 4 << 20, IOVA: 1<<40 + uint64(i)<<22, Access: rw,
			BufferSize: uint64(n) << 22, Driver: "efa", Kernel: "7.3.4",
		}
		f(i, &all[i])
	}
	return all
}

// Failures that people reported of their systems, as inputs. What the kernel
// refuses is a rule, what it lets pass a warning; what only the answer of the
// kernel tells is explained by it; and what no check can see is seen elsewhere.
func TestReportedFailures(t *testing.T) {
	for name, c := range map[string]struct {
		in    []CheckOptions
		rule  string
		errno syscall.Errno
		warns string // the warning's words, anywhere

		answer  syscall.Errno // explained
		request umem.Request
		words   []string

		elsewhere string
	}{
		"1: the segment is smaller than the range": {
			in:   []CheckOptions{{Offset: 8214528, Length: 1916853120, IOVA: 0x12397fd5800, Access: rw, BufferSize: 20971520, Driver: "mlx5", Kernel: "6.12.0"}},
			rule: "size", errno: syscall.EINVAL,
			words: []string{"offset 8214528 + length 1916853120 = 1925067648, the buffer has 20971520 bytes (20 MiB)", "one segment"},
		},
		"2: offset 0 of a pointer into an allocation": {
			in: []CheckOptions{{Length: 1 << 20, IOVA: 0x7f0000a30000, Access: rw, BufferSize: 64 << 20, Exporter: "nv_dmabuf",
				Address: 0x7f0000a30000, Base: 0x7f0000000000, Driver: "mlx5", Kernel: "6.12.0"}},
			warns: "the offset is 0, the address is 10682368 bytes into its allocation: peers would reach the start",
		},
		"2: the same, without its base": {
			in: []CheckOptions{{Length: 1 << 20, IOVA: 0x7f0000a30000, Access: rw, BufferSize: 64 << 20, Exporter: "nv_dmabuf",
				Driver: "mlx5", Kernel: "6.12.0"}},
			warns: "the offset is 0 and the buffer of 67108864 bytes (64 MiB) is longer",
		},
		"3: the distance from the start is lost in part": {
			in: []CheckOptions{{Offset: 0x3000, Length: 8192, IOVA: 0x7f0000045000, Access: rw, BufferSize: 2 << 20,
				Address: 0x7f0000045000, Base: 0x7f0000000000, Driver: "efa", Kernel: "7.3.0"}},
			warns: "a neighbour's memory",
		},
		"4: each chunk has the first one's offset": {
			in:    chunks(4, func(i int, o *CheckOptions) { o.Offset = 0 }),
			warns: "registration 1 has the same offset 0 as the one before it",
		},
		"5: a mask eats an offset of 131072": {
			in: []CheckOptions{{Offset: 0x1000, Length: 4096, IOVA: 0x7f0000021000, Access: rw, BufferSize: 2 << 20,
				Address: 0x7f0000021000, Base: 0x7f0000000000, Driver: "efa", Kernel: "7.3.0"}},
			warns: "131072 of it went with a mask of 0x1ffff;",
		},
		"6: 8 GiB in chunks of 4 MiB, each with its descriptor": {
			in:    chunks(2048, func(int, *CheckOptions) {}),
			warns: "descriptors would be open, the limit is 1024",
		},
		"7: Unknown error 524 of a PCIe mapping": {
			answer: umem.ENOTSUPP, request: umem.Request{Length: 4096, Access: rw, Buffer: umem.Buffer{State: umem.StateDMABuf, Size: 1 << 20, Exporter: "nv_dmabuf"}},
			words: []string{"exported for one path (CUDA's PCIE mapping)", "without that flag"},
		},
		"8: an IOMMU translates and the device got raw BAR addresses": {
			elsewhere: "package pci: it takes the addresses that the device was given (ebpfprobes) and the BARs",
		},
		"9: 63 GiB at once behind an IOMMU": {
			answer: syscall.ENOMEM, request: umem.Request{Length: 63 << 30, Access: rw, Device: umem.Device{Driver: "mlx5", MaxMRSize: 1 << 62, Translated: true}},
			words: []string{"not the memlock limit", "register pieces of 1 GiB", "P2PDMA whitelist"},
		},
		"10: thousands of regions of 4 bytes in a page": {
			in: chunks(16, func(i int, o *CheckOptions) {
				o.Offset, o.Length, o.IOVA = uint64(i)*4, 4, 1<<40+uint64(i)*4
			}),
			warns: "15 of 16 registrations lie in the same page",
		},
		"11: 96 GB are more than the device has": {
			in: []CheckOptions{{Length: 96 << 30, IOVA: 1 << 40, Access: rw, BufferSize: 128 << 30, Driver: "efa", MaxMRSize: 95 << 30, PageSizes: 0xfffff000,
				DeviceAccess: rw, Kernel: "7.3.0"}},
			rule: "device limit", errno: syscall.ENOMEM, words: []string{"103079215104 bytes (96 GiB)", "102005473280 bytes (95 GiB)"},
		},
		"11: the device has no room, and does not say how much it had": {
			answer: syscall.ENOMEM, request: umem.Request{Length: 96 << 30, Access: rw, Device: umem.Device{Driver: "efa"}},
			words: []string{"no room for so many regions or pages (deregister"},
		},
		"12: the kernel counts a region that was deregistered": {
			elsewhere: "packages verbs and efa count live objects (Live), and 'peerdirect devices' shows the kernel's",
		},
		"13: regions in descending order": {
			in: chunks(8, func(i int, o *CheckOptions) {
				o.Offset, o.IOVA = uint64(7-i)<<22, 1<<40+uint64(7-i)<<22
			}),
			warns: "ascending order",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.elsewhere != "" {
				t.Log("no matter of a registration's numbers: " + c.elsewhere)
				return
			}
			if c.answer != 0 {
				text := umem.Explain(&c.request, c.answer)
				for _, w := range c.words {
					if !strings.Contains(text, w) {
						t.Errorf("%q lacks %q", text, w)
					}
				}
				return
			}
			withFiles(t, 1024)
			reports := CheckAll(c.in)
			var warnings []string
			for i := range reports {
				r := &reports[i]
				for _, w := range r.Warnings {
					if w.Remedy == "" {
						t.Errorf("%s without a remedy", w.Name)
					}
					warnings = append(warnings, w.Cause+"; "+w.Remedy)
				}
				f := r.Failing()
				if c.rule == "" {
					if f != nil || r.Err() != nil {
						t.Errorf("the kernel takes it; here %v", r.Err())
					}
					continue
				}
				if f == nil || f.Name != c.rule || !errors.Is(r.Err(), c.errno) {
					t.Fatalf("%v; want rule %s", r.Err(), c.rule)
				}
				for _, w := range c.words {
					if !strings.Contains(r.Err().Error(), w) {
						t.Errorf("%v lacks %q", r.Err(), w)
					}
				}
			}
			if got := strings.Join(warnings, "\n"); !strings.Contains(got, c.warns) || (c.warns == "") != (got == "") {
				t.Errorf("warnings:\n%s\nwant %q", got, c.warns)
			}
		})
	}
}

// withFiles sets the limit of descriptors for a test.
func withFiles(t *testing.T, n uint64) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Setrlimit(unix.RLIMIT_NOFILE, &old) })
}
