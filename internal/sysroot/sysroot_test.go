package sysroot

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/ulikunitz/xz"
	"golang.org/x/sys/unix"
)

// entries are a small root: a file's text, a link's target after "->", a folder
// by its "/".
var entries = []string{
	"etc/",
	"sys/devices/pci0000:00/0000:00:01.0/vendor=0x8086\n",
	"sys/bus/pci/devices/0000:00:01.0->../../../devices/pci0000:00/0000:00:01.0",
	"sys/absolute->/sys/devices",
	"sys/above->../../../../../../etc",
	"sys/outside->/etc/passwd",
	"sys/gone->nowhere",
	"sys/round->round",
	"sys/ping->pong",
	"sys/pong->ping",
}

func split(e string) (name, text, link string) {
	if name, link, ok := strings.Cut(e, "->"); ok {
		return name, "", link
	}
	name, text, _ = strings.Cut(e, "=")
	return name, text, ""
}

func folder(t testing.TB) string {
	t.Helper()
	top := t.TempDir()
	for _, e := range entries {
		name, text, link := split(e)
		at := filepath.Join(top, name)
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		switch {
		case link != "":
			must(t, os.Symlink(link, at))
		case strings.HasSuffix(name, "/"):
			must(t, os.Mkdir(at, 0o755))
		default:
			must(t, os.WriteFile(at, []byte(text), 0o644))
		}
	}
	return top
}

func packed(t testing.TB, below string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		name, text, link := split(e)
		h := &tar.Header{Name: below + name, Linkname: link, Size: int64(len(text)), Mode: 0o644, Typeflag: tar.TypeReg}
		switch {
		case link != "":
			h.Typeflag = tar.TypeSymlink
		case strings.HasSuffix(name, "/"):
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		}
		must(t, w.WriteHeader(h))
		_, err := w.Write([]byte(text))
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// roots are the same files, in every way that there is to open them.
func roots(t *testing.T, each func(t *testing.T, root fs.FS)) {
	t.Run("folder", func(t *testing.T) {
		root, err := Open(folder(t))
		must(t, err)
		each(t, root)
	})
	t.Run("folder without openat2", func(t *testing.T) {
		defer noOpenat2.Store(noOpenat2.Swap(true))
		root, err := Open(folder(t))
		must(t, err)
		each(t, root)
	})
	for _, below := range []string{"", "./", "host/fixtures/"} {
		t.Run("tar below "+below, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "root.tar")
			must(t, os.WriteFile(name, packed(t, below), 0o644))
			root, err := Open(name)
			must(t, err)
			each(t, root)
		})
	}
	t.Run("tar.xz", func(t *testing.T) {
		root, err := ReadTar(bytes.NewReader(xzipped(t, packed(t, ""))))
		must(t, err)
		each(t, root)
	})
	t.Run("tar.gz", func(t *testing.T) {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write(packed(t, ""))
		must(t, err)
		must(t, z.Close())
		root, err := ReadTar(&b)
		must(t, err)
		each(t, root)
	})
}

func TestLinksStayInsideTheRoot(t *testing.T) {
	roots(t, func(t *testing.T, root fs.FS) {
		for _, name := range []string{
			"sys/devices/pci0000:00/0000:00:01.0/vendor",
			"sys/bus/pci/devices/0000:00:01.0/vendor",
			"sys/absolute/pci0000:00/0000:00:01.0/vendor",
			"sys/above/../sys/x", // not a name
		} {
			b, err := fs.ReadFile(root, name)
			if !fs.ValidPath(name) {
				if !errors.Is(err, fs.ErrInvalid) {
					t.Errorf("%s: %q, %v", name, b, err)
				}
				continue
			}
			if string(b) != "0x8086\n" || err != nil {
				t.Errorf("%s: %q, %v", name, b, err)
			}
		}
		if list, err := fs.ReadDir(root, "sys/above"); len(list) != 0 || err != nil {
			t.Errorf("above the root: %v, %v", list, err)
		}
		for name, want := range map[string]error{
			"sys/outside":              fs.ErrNotExist,
			"sys/gone":                 fs.ErrNotExist,
			"sys/missing":              fs.ErrNotExist,
			"sys/round":                syscall.ELOOP,
			"sys/ping/vendor":          syscall.ELOOP,
			"sys/bus/pci":              syscall.EISDIR,
			"sys/absolute/../absolute": fs.ErrInvalid,
		} {
			if b, err := fs.ReadFile(root, name); !errors.Is(err, want) {
				t.Errorf("%s: %q, %v; want %v", name, b, err, want)
			}
		}
	})
}

// A folder of a root shows what the root shows, wherever its links lead.
func TestFolderOfARoot(t *testing.T) {
	root, err := Open(folder(t))
	must(t, err)
	for _, name := range []string{"sys", "sys/devices/pci0000:00/0000:00:01.0", "sys/bus/pci/devices"} {
		below, err := fs.Sub(root, name)
		must(t, err)
		entries, err := fs.ReadDir(below, ".")
		must(t, err)
		for _, e := range entries {
			a, err1 := fs.ReadFile(root, name+"/"+e.Name())
			b, err2 := fs.ReadFile(below, e.Name())
			var buf [64]byte
			n, err3 := below.(interface {
				ReadInto(string, []byte) (int, error)
			}).ReadInto(e.Name(), buf[:])
			if !bytes.Equal(a, b) || !bytes.Equal(a, buf[:n]) || (err1 == nil) != (err2 == nil) || (err1 == nil) != (err3 == nil) {
				t.Errorf("%s in %s: %q %v, %q %v, %q %v", e.Name(), name, a, err1, b, err2, buf[:n], err3)
			}
			l1, err1 := fs.ReadLink(root, name+"/"+e.Name())
			l2, err2 := fs.ReadLink(below, e.Name())
			if l1 != l2 || (err1 == nil) != (err2 == nil) {
				t.Errorf("%s in %s: %q %v, %q %v", e.Name(), name, l1, err1, l2, err2)
			}
		}
		must(t, below.(io.Closer).Close())
	}
}

func TestLinksAreReadAsTheyAre(t *testing.T) {
	roots(t, func(t *testing.T, root fs.FS) {
		for _, e := range entries {
			name, _, link := split(e)
			name = strings.TrimSuffix(name, "/")
			got, err := fs.ReadLink(root, name)
			if link == "" && !errors.Is(err, syscall.EINVAL) || link != "" && (got != link || err != nil) {
				t.Errorf("%s: %q, %v", name, got, err)
			}
			info, err := fs.Lstat(root, name)
			if err != nil || (info.Mode().Type() == fs.ModeSymlink) != (link != "") {
				t.Errorf("%s: %v, %v", name, info, err)
			}
		}
		if got, err := fs.ReadLink(root, "sys/absolute/pci0000:00/none"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("missing: %q, %v", got, err)
		}
	})
}

// The rules of fs.FS, which a link to nowhere would break.
func TestRootsAreFileSystems(t *testing.T) {
	saved := entries
	defer func() { entries = saved }()
	entries = entries[:4]
	roots(t, func(t *testing.T, root fs.FS) {
		if err := fstest.TestFS(root, "sys/devices/pci0000:00/0000:00:01.0/vendor", "etc"); err != nil {
			t.Error(err)
		}
	})
}

// What we may not read is told apart from what is not there.
func TestPermissionErrorsAreKept(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("needs a user other than root, whom no permission stops")
	}
	top := folder(t)
	must(t, os.Chmod(filepath.Join(top, "sys/devices/pci0000:00/0000:00:01.0/vendor"), 0))
	root, err := Dir(top)
	must(t, err)
	if _, err := fs.ReadFile(root, "sys/bus/pci/devices/0000:00:01.0/vendor"); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
}

// Nothing in a folder makes a reader wait or read without end.
func TestFilesThatAreNone(t *testing.T) {
	top := t.TempDir()
	must(t, unix.Mkfifo(filepath.Join(top, "fifo"), 0o644))
	must(t, os.WriteFile(filepath.Join(top, "huge"), nil, 0o644))
	must(t, os.Truncate(filepath.Join(top, "huge"), 1<<40))
	root, err := Dir(top)
	must(t, err)
	if b, err := fs.ReadFile(root, "fifo"); len(b) != 0 {
		t.Errorf("FIFO: %q, %v", b, err)
	}
	if _, err := fs.ReadFile(root, "huge"); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("1 TiB: %v", err)
	}
}

func TestThisMachine(t *testing.T) {
	root, err := Dir("/")
	must(t, err)
	for _, name := range []string{"proc/cpuinfo", "proc/meminfo"} {
		got, err := fs.ReadFile(root, name)
		if len(got) == 0 || err != nil {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	if list, err := fs.ReadDir(root, "sys/class"); len(list) == 0 || err != nil {
		t.Errorf("%v, %v", list, err)
	}
}

func TestTarsThatAreNone(t *testing.T) {
	good := packed(t, "")
	var bomb bytes.Buffer
	w := tar.NewWriter(&bomb)
	must(t, w.WriteHeader(&tar.Header{Name: "sys/zeros", Size: maxFile + 1, Mode: 0o644}))
	for name, c := range map[string]struct{ data, says string }{
		"nothing":        {"", "empty"},
		"text":           {strings.Repeat("no tar\n", 200), "unpack"},
		"cut":            {string(good[:3*512+100]), "unpack"},
		"cut xz":         {"\xfd7zXZ\x00\x00\x04", "cut"},
		"xz of 4 GiB":    {"\xfd7zXZ\x00\x00\x04\xe6\xd6\xb4\x46\x02\x00\x21\x01\x28\x00\x00\x00", "4095 MiB: xz -dk"},
		"damaged xz":     {string(xzipped(t, good)[:100]) + "damaged", "unpack"},
		"zstd":           {"\x28\xb5\x2f\xfd\x04\x00", "zstd -d"},
		"cut gzip":       {"\x1f\x8b\x08", "EOF"},
		"too large":      {bomb.String(), "too large"},
		"below a file":   {string(pack(t, "sys/a=1", "sys/a/b=2")), "no folder"},
		"hard link gone": {string(hard(t, "sys/a", "sys/b")), "hard link"},
	} {
		if root, err := ReadTar(strings.NewReader(c.data)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v; want %q", name, root, err, c.says)
		}
	}
}

func xzipped(t testing.TB, data []byte) []byte {
	var b bytes.Buffer
	z, err := xz.NewWriter(&b)
	must(t, err)
	_, err = z.Write(data)
	must(t, err)
	must(t, z.Close())
	return b.Bytes()
}

func pack(t testing.TB, list ...string) []byte {
	saved := entries
	defer func() { entries = saved }()
	entries = list
	return packed(t, "")
}

func hard(t testing.TB, name, to string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	must(t, w.WriteHeader(&tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeLink}))
	must(t, w.Close())
	return b.Bytes()
}

func FuzzTar(f *testing.F) {
	// Short, without the end's blocks: the fuzzer first tries to shorten them.
	f.Add(pack(f, "sys/a=1")[:1024])
	f.Add(pack(f, "sys/a->/sys/b", "sys/b->a")[:1024])
	f.Add(hard(f, "sys/a", "../sys")[:512])
	f.Add([]byte("\x1f\x8b\x08"))
	f.Add(xzipped(f, pack(f, "sys/a=1")[:1024]))
	f.Fuzz(func(t *testing.T, data []byte) {
		root, err := ReadTar(bytes.NewReader(data))
		if err != nil {
			return
		}
		n := 0
		err = fs.WalkDir(root, ".", func(p string, _ fs.DirEntry, err error) error {
			if n++; n > 1000 {
				return fs.SkipAll
			}
			if err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
			fs.ReadFile(root, p)
			fs.Stat(root, p)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
