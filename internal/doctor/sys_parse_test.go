package doctor

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseLimits(t *testing.T) {
	got := parseLimits("Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max nice priority         0                    0                    \n" +
		"Max open files            1024                 unlimited            files     \n" +
		"Max locked memory         x                    unlimited            bytes     \n" +
		"Max pending               1\nMax\n")
	want := map[string]limit{"Max nice priority": {0, 0}, "Max open files": {1024, unlimited}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(limit{})); diff != "" {
		t.Error(diff)
	}
}

func TestParseCgroups(t *testing.T) {
	got := parseCgroups("9:name=systemd:/\n4:memory,hugetlb:/m\n0::/a/../b\nnonsense\n0:relative\n")
	want := []cgroup{{[]string{"name=systemd"}, "/"}, {[]string{"memory", "hugetlb"}, "/m"}, {nil, "/b"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(cgroup{})); diff != "" {
		t.Error(diff)
	}
}

func TestParseMaps(t *testing.T) {
	got := parseMaps("7f00-7f01 r--p 00000000 fe:01 77   /usr/lib/libibverbs.so.1.14.44.0\n" +
		"7f01-7f02 r-xp 00000000 fe:01 77   /usr/lib/libibverbs.so.1.14.44.0\n" +
		"7f02-7f03 r-xp 00000000 fe:01 78   /opt/with blanks/libfabric.so.1 (deleted)\n" +
		"7f03-7f04 rw-p 00000000 00:00 0 \n7f04-7f05 rw-p 00000000 00:00 0    [heap]\n" +
		"7f05-7f06 r-xp 00000000 fe:01 79   /usr/lib/libc.so.6\nshort\n")
	want := []mapping{{"/usr/lib/libibverbs.so.1.14.44.0", "fe:01 77", false}, {"/opt/with blanks/libfabric.so.1", "fe:01 78", true}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(mapping{})); diff != "" {
		t.Error(diff)
	}
}

func TestParseModules(t *testing.T) {
	got := parseModules("ib_core 557056 4 rdma_cm,ib_uverbs, Live 0x0000000000000000\nnvidia 1 2 - Live 0x0 (POE)\nshort 1\n")
	if diff := cmp.Diff(map[string]string{"ib_core": "Live", "nvidia": "Live (POE)"}, got); diff != "" {
		t.Error(diff)
	}
	if got := parseTree("a/ib-core.ko.xz: b/c.ko\nd/e.ko\nnone\n.ko:\n"); len(got) != 2 || got["ib_core"] != "a/ib-core.ko.xz" || got["e"] != "d/e.ko" {
		t.Error(got)
	}
	for line, want := range map[string]string{"blacklist nouveau": "nouveau", "install ib-core /bin/true": "ib_core", "install x /sbin/modprobe y": "",
		"options x y": "", "": "", "blacklist": "", "install x :": "x"} {
		if got, refused, ok := parseBlocked(line); got != want || ok != (want != "") || refused != (ok && strings.HasPrefix(line, "install")) {
			t.Errorf("%q: %q, %v, %v", line, got, refused, ok)
		}
	}
}

func TestParseRDMABounds(t *testing.T) {
	got := parseRDMABounds("mlx5_0 hca_handle=2 hca_object=max\nrxe0 hca_object=7 other=1\nalone\n")
	want := []rdmaBound{{"mlx5_0", 2, unlimited}, {"rxe0", unlimited, 7}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(rdmaBound{})); diff != "" {
		t.Error(diff)
	}
}

// loaderCache makes one as ldconfig does: in the older form in front of the newer, or
// in that alone.
func loaderCache(order binary.AppendByteOrder, before string, entries ...cached) []byte {
	b := []byte("glibc-ld.so.cache1.1")
	b = order.AppendUint32(b, uint32(len(entries)))
	b = order.AppendUint32(b, 0)
	flags := byte(2)
	if order.String() == binary.BigEndian.String() {
		flags = 3
	}
	b = append(b, flags, 0, 0, 0)
	b = append(b, make([]byte, 16)...)
	var text []byte
	for _, e := range entries {
		at := uint32(48 + 24*len(entries) + len(text))
		b = order.AppendUint32(b, e.flags)
		b = order.AppendUint32(b, at)
		b = order.AppendUint32(b, at+uint32(len(e.name))+1)
		b = append(b, make([]byte, 12)...)
		text = append(text, e.name+"\x00"+e.file+"\x00"...)
	}
	return append([]byte(before), append(b, text...)...)
}

func TestParseCache(t *testing.T) {
	entries := []cached{{"libibverbs.so.1", "/usr/lib/libibverbs.so.1", 0x303}, {"libc.so.6", "/usr/lib/libc.so.6", 0x303}, {"libefa.so", "/x/libefa.so", 0x303},
		{"libnccl-net.so", "/x/libnccl-net.so", 0x303}}
	want := []cached{entries[0], entries[3]}
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, before := range []string{"", "ld.so-1.7.0\x00\x00\x00\x00\x00"} {
			got, err := parseCache(loaderCache(order, before, entries...))
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(cached{})); diff != "" || err != nil {
				t.Errorf("%v: %v\n%s", order, err, diff)
			}
		}
	}
	for name, bad := range map[string][]byte{
		"nothing":   nil,
		"no cache":  []byte("musl"),
		"a stump":   []byte("glibc-ld.so.cache1.1"),
		"cut short": loaderCache(binary.LittleEndian, "", entries...)[:60],
	} {
		if got, err := parseCache(bad); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	// Offsets that lead out of it are names of nothing.
	bad := loaderCache(binary.LittleEndian, "", entries[0])
	binary.LittleEndian.PutUint32(bad[52:], math.MaxUint32)
	if got, err := parseCache(bad); len(got) != 0 || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{"mlx5_0": "mlx5_0", "": "''", "a b": "'a b'", "$(reboot)": "'$(reboot)'", "it's": `'it'\''s'`, "a\nb": "'a?b'", "/dev/x": "/dev/x"} {
		if got := quote(in); got != want {
			t.Errorf("%q: %s; want %s", in, got, want)
		}
	}
}

// What other sides wrote may be anything.
func FuzzParsers(f *testing.F) {
	f.Add([]byte("Max locked memory         8388608              8388608              bytes     \n"))
	f.Add([]byte("7f00-7f01 r--p 00000000 fe:01 77   /usr/lib/libibverbs.so.1 (deleted)\n"))
	f.Add([]byte("CapEff:\t000001ffffffffff\n4:memory:/m\n0::/a\nmlx5_0 hca_handle=2 hca_object=max\n"))
	f.Add([]byte("kernel/a.ko.xz: b.ko\nib_core 1 2 a, Live 0x0 (OE)\nalias pci:v000015B3d* x\nblacklist y\ninstall z /bin/false\nDevice Minor: 1\n"))
	f.Add(loaderCache(binary.LittleEndian, "", cached{"libefa.so.1", "/x/libefa.so.1", 0x303}))
	f.Fuzz(func(t *testing.T, b []byte) {
		text := string(b)
		for name := range parseLimits(text) {
			if strings.TrimSpace(name) != name {
				t.Errorf("a limit is called %q", name)
			}
		}
		for _, m := range parseMaps(text) {
			if !strings.HasPrefix(m.file, "/") || familyOf(m.file) == "" {
				t.Errorf("%+v is no library", m)
			}
		}
		for _, c := range parseCgroups(text) {
			if !strings.HasPrefix(c.path, "/") || strings.Contains(c.path+"/", "/../") {
				t.Errorf("%+v leads out", c)
			}
			managerOf(c.path)
		}
		for _, b := range parseRDMABounds(text) {
			if b.device == "" {
				t.Error("a bound of no device")
			}
		}
		for name := range parseTree(text) {
			if strings.Contains(name, "-") || name == "" {
				t.Errorf("a module is called %q", name)
			}
		}
		parseCapabilities(text)
		parseModules(text)
		parseAliases(text)
		parseBlocked(text)
		minorOf(text)
		parseDistribution(text)
		if all, err := parseCache(b); err == nil {
			for _, c := range all {
				if strings.Contains(c.name+c.file, "\x00") || !bytes.Contains(b, []byte(c.name)) {
					t.Errorf("%+v is not in it", c)
				}
			}
		}
	})
}
