package ebpfprobes

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const writeFormat = `name: sys_enter_write
ID: 821
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int __syscall_nr;	offset:8;	size:4;	signed:1;
	field:unsigned int fd;	offset:16;	size:8;	signed:0;
	field:const char * buf;	offset:24;	size:8;	signed:0;
	field:size_t count;	offset:32;	size:8;	signed:0;
	field:__data_loc char[] __buf_val;	offset:40;	size:4;	signed:0;

print fmt: "fd: 0x%08lx", ((unsigned long)(REC->fd))
`

func TestParseFormat(t *testing.T) {
	have, err := parseFormat(strings.NewReader(writeFormat))
	if err != nil || have["__buf_val"] != (field{"__buf_val", 40, 4}) || have["common_type"] != (field{"common_type", 0, 2}) {
		t.Errorf("%+v, %v", have, err)
	}
	if err := fitsFormat(have, enteringFields["write"]); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]string{
		"count": "field:size_t length;	offset:32;	size:8;",
		"fd":    "field:unsigned int fd;	offset:20;	size:8;",
		"buf":   "field:const char *buf;	offset:24;	size:4;",
	} {
		var lines []string
		for line := range strings.Lines(writeFormat) {
			if strings.Contains(line, name+";") {
				line = change + "\n"
			}
			lines = append(lines, line)
		}
		have, err := parseFormat(strings.NewReader(strings.Join(lines, "")))
		if err != nil {
			t.Error(err)
		}
		if err := fitsFormat(have, enteringFields["write"]); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", change, err)
		}
	}
	if have, err := parseFormat(strings.NewReader("field:int a;\toffset:x;\tsize:4;\n")); err == nil {
		t.Errorf("%+v", have)
	}
}

func FuzzParseFormat(f *testing.F) {
	f.Add(writeFormat)
	f.Add("field:;offset:1")
	f.Fuzz(func(t *testing.T, text string) {
		fields, err := parseFormat(strings.NewReader(text))
		for name, have := range fields {
			if err == nil && (name == "" || name != have.name || strings.ContainsAny(name, " *;")) {
				t.Errorf("%q: %+v", name, have)
			}
		}
	})
}

func TestParseBuffer(t *testing.T) {
	for _, c := range []struct {
		text, exporter string
		inode, size    uint64
	}{
		{"pos:\t0\nflags:\t02000002\nmnt_id:\t13\nino:\t7\nsize:\t1048576\ncount:\t2\nexp_name:\tudmabuf\nname:\tsize: 5\n", "udmabuf", 7, 1 << 20},
		{"pos:\t0\nino:\t7\nsize:\t5\n", "", 0, 0}, // no dma-buf
		{"exp_name:\tnvidia\nino:\t-1\n", "nvidia", 0, 0},
		{"", "", 0, 0},
	} {
		if exporter, inode, size := parseBuffer(strings.NewReader(c.text)); exporter != c.exporter || inode != c.inode || size != c.size {
			t.Errorf("%q: %q, %d, %d", c.text, exporter, inode, size)
		}
	}
}

func FuzzParseBuffer(f *testing.F) {
	f.Add("ino:\t7\nsize:\t4096\nexp_name:\tudmabuf\n")
	f.Fuzz(func(t *testing.T, text string) {
		if exporter, inode, size := parseBuffer(strings.NewReader(text)); exporter == "" && inode|size != 0 {
			t.Errorf("%d, %d of no dma-buf", inode, size)
		}
	})
}

// TestLookAt: a device is known by its number.
func TestLookAt(t *testing.T) {
	root := t.TempDir()
	fds := filepath.Join(root, "proc/7/fd")
	null := filepath.Join(root, "sys/dev/char/1:3") // of /dev/null
	for _, folder := range []string{fds, null} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"3": "/dev/null", "4": "/dev/zero", "5": file} {
		if err := os.Symlink(to, filepath.Join(fds, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(null, "ibdev"), []byte("rxe0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		pid, fd int
		device  string
		is      membership
	}{{7, 3, "rxe0", shown}, {7, 4, "", foreign}, {7, 5, "", foreign}, {7, 6, "", unconfirmed}, {8, 3, "", unconfirmed}} {
		if device, is := lookAt(root, c.pid, c.fd); device != c.device || is != c.is {
			t.Errorf("%d/%d: %q, %v", c.pid, c.fd, device, is)
		}
	}
}

// TestDescriptors: what took an ioctl of RDMA is an uverbs device's, from then on.
func TestDescriptors(t *testing.T) {
	var d descriptors
	if _, is := d.of(1, false); is != unconfirmed {
		t.Error(is)
	}
	if _, is := d.of(1, true); is != shown {
		t.Error(is)
	}
	if _, is := d.of(1, false); is != shown {
		t.Error(is)
	}
	d.forget(1)
	if _, is := d.of(1, false); is != unconfirmed {
		t.Error(is)
	}
}
