package dmabuf

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFDInfoOfADMABuf(t *testing.T) {
	const head = "pos:\t0\nflags:\t02100002\nmnt_id:\t16\nino:\t71\n"
	for name, c := range map[string]struct {
		text string
		want Info
		ok   bool
	}{
		"of 7.3":         {head + "size:\t1048576\ncount:\t3\nexp_name:\tudmabuf\n", Info{71, 1 << 20, 3, "udmabuf", ""}, true},
		"named":          {head + "size:\t4096\ncount:\t1\nexp_name:\tsystem\nname:\tpool 7\n", Info{71, 4096, 1, "system", "pool 7"}, true},
		"without ino":    {"pos:\t0\nsize:\t4096\ncount:\t1\nexp_name:\tnv_dmabuf\n", Info{0, 4096, 1, "nv_dmabuf", ""}, true},
		"a name's lines": {head + "size:\t1\ncount:\t1\nexp_name:\ta\nname:\tx\nexp_name:\tb\nino:\t9\n", Info{71, 1, 1, "a", "x\nexp_name:\tb\nino:\t9"}, true},
		"no count":       {head + "size:\t1\nexp_name:\ta\n", Info{71, 1, -1, "a", ""}, true},
		"a socket":       {head, Info{Inode: 71, Count: -1}, false},
		"eventfd":        {head + "eventfd-count:\t0\n", Info{Inode: 71, Count: -1}, false},
		"empty":          {"", Info{Count: -1}, false},
		"no numbers":     {"ino:\tx\nsize:\t-1\ncount:\t?\nexp_name:\t\n", Info{Count: -1}, true},
	} {
		info, ok := parseFDInfo(c.text)
		if diff := cmp.Diff(c.want, info); diff != "" || ok != c.ok {
			t.Errorf("%s: ok %v (-want +got):\n%s", name, ok, diff)
		}
	}
}

func FuzzFDInfo(f *testing.F) {
	f.Add("ino:\t71\nsize:\t4096\ncount:\t1\nexp_name:\tudmabuf\nname:\tx\ny\n")
	f.Add("name:\nexp_name:\n:\n")
	f.Fuzz(func(t *testing.T, text string) {
		info, ok := parseFDInfo(text)
		if ok && !strings.Contains(text, "exp_name:") {
			t.Error("a dma-buf without an exporter")
		}
		if !strings.Contains(text, info.Name) || strings.Contains(info.Exporter, "\n") {
			t.Errorf("%+v of %q", info, text)
		}
	})
}

func TestMappingsOfDMABufs(t *testing.T) {
	for line, want := range map[string]*mapsLine{
		"7f0000001000-7f0000003000 rw-s 00002000 00:0d 71    /dmabuf:\n":           {Mapping{0x7f0000001000, 0x7f0000003000, 0x2000, "rw-s"}, "00:0d", 71, "/dmabuf:"},
		"7f0000001000-7f0000003000 r--s 00000000 00:0d 71    /dmabuf:a b\\012c\n":  {Mapping{0x7f0000001000, 0x7f0000003000, 0, "r--s"}, "00:0d", 71, `/dmabuf:a b\012c`},
		"00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/dbus-daemon\n": {Mapping{0x400000, 0x452000, 0, "r-xp"}, "08:02", 173521, "/usr/bin/dbus-daemon"},
		"7f0000001000-7f0000003000 rw-p 00000000 00:00 0 \n":                       {Mapping{0x7f0000001000, 0x7f0000003000, 0, "rw-p"}, "00:00", 0, ""},
		"7f0000003000-7f0000001000 rw-s 00000000 00:0d 71 /dmabuf:\n":              nil,
		"7f0000001000 rw-s 00000000 00:0d 71 /dmabuf:\n":                           nil,
		"":                                 nil,
		"zz-1 rw-s 0 00:0d 71 /dmabuf:\n":  nil,
		"0-1 rw-s 0 00:0d -71 /dmabuf:\n":  nil,
		"0-1 rw 0 00:0d 71 /dmabuf:x y\n":  nil,
		"VmFlags: rd wr mr mw me ms sd\n":  nil,
		"Size:               4096 kB kB k": nil,
	} {
		got, ok := parseMapsLine(line)
		if ok != (want != nil) || ok && got != *want {
			t.Errorf("%q: %+v, %v", line, got, ok)
		}
	}
	_, inode, name, ok := parseMapping("1000-3000 rw-s 00000000 00:0d 71    /dmabuf:a b\\012c\n")
	if !ok || inode != 71 || name != "a b\nc" {
		t.Errorf("inode %d, name %q, %v", inode, name, ok)
	}
	if _, _, _, ok := parseMapping("1000-3000 rw-s 00000000 00:01 5 /memfd:/dmabuf: (deleted)\n"); ok {
		t.Error("a memfd is taken for a dma-buf")
	}
}

func FuzzMaps(f *testing.F) {
	f.Add("1000-3000 rw-s 00000000 00:01 5 /memfd:x (deleted)\n3000-4000 rw-s 00002000 00:01 5 /memfd:x (deleted)\n", uint64(0x1800), uint64(0x2000))
	f.Add("1000-3000 rw-s 00000000 00:0d 71 /dmabuf:\n", uint64(0), uint64(1))
	f.Fuzz(func(t *testing.T, text string, address, size uint64) {
		for line := range strings.Lines(text) {
			if m, _, _, ok := parseMapping(line); ok && m.Start >= m.End {
				t.Errorf("%q: %+v", line, m)
			}
		}
		if size == 0 || address+size < address {
			return
		}
		if l, err := findMapping(text, address, size); err == nil && (l.Start > address || l.End <= address) {
			t.Errorf("%#x is not in %+v", address, l)
		}
	})
}

// process writes what /proc tells of a process.
func process(t *testing.T, maps string, fds map[string][2]string) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "proc/7")
	for _, sub := range []string{"fd", "fdinfo"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "maps"), []byte(maps), 0o644); err != nil {
		t.Fatal(err)
	}
	for fd, x := range fds {
		if err := os.Symlink(x[0], filepath.Join(dir, "fd", fd)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "fdinfo", fd), []byte(x[1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestBuffersThatAProcessHolds(t *testing.T) {
	const a = "ino:\t71\nsize:\t8192\ncount:\t4\nexp_name:\tudmabuf\nname:\tpool\n"
	root := process(t, `7f0000000000-7f0000002000 rw-s 00000000 00:0d 71   /dmabuf:pool
7f0000002000-7f0000003000 rw-p 00000000 00:00 0
7f0000004000-7f0000005000 r--s 00001000 00:0d 90   /dmabuf:gone
7f0000006000-7f0000007000 rw-s 00001000 00:0d 71   /dmabuf:pool
`, map[string][2]string{
		"0":  {"/dev/null", "ino:\t1\n"},
		"12": {"/dmabuf:pool", a},
		"9":  {"/dmabuf:pool", a},
		"3":  {"/dmabuf:", "ino:\t80\nsize:\t4096\ncount:\t1\nexp_name:\tsystem\n"},
		// A file that bears such a name.
		"4": {"/dmabuf:pool", "ino:\t99\n"},
	})
	held, err := HeldBy(root, 7)
	want := []Held{
		{Info{71, 8192, 4, "udmabuf", "pool"}, []int{9, 12}, []Mapping{
			{0x7f0000000000, 0x7f0000002000, 0, "rw-s"}, {0x7f0000006000, 0x7f0000007000, 0x1000, "rw-s"}}},
		{Info{80, 4096, 1, "system", ""}, []int{3}, nil},
		{Info{90, 0, -1, "", "gone"}, nil, []Mapping{{0x7f0000004000, 0x7f0000005000, 0x1000, "r--s"}}},
	}
	if diff := cmp.Diff(want, held); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestWithoutSuchAProcess(t *testing.T) {
	_, err := HeldBy(process(t, "", nil), 8)
	refused(t, err, syscall.ESRCH, "process 8", "ended")
	if held, err := HeldBy("/", os.Getpid()); err != nil || len(held) != 0 {
		t.Errorf("this process holds %+v, %v", held, err)
	}
}
