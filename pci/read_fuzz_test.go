package pci

import (
	"io/fs"
	"path"
	"strings"
	"testing"
)

// tied is a root whose links lead nowhere, so that any may be made: what they say
// is read, and the rest is at its own place.
type tied struct{ machine }

func (f tied) Open(name string) (fs.File, error) {
	for at := name; at != "."; at = path.Dir(at) {
		if m := f.MapFS[at]; m != nil && m.Mode&fs.ModeSymlink != 0 {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
	}
	return f.MapFS.Open(name)
}
func (f tied) ReadFile(name string) ([]byte, error) { return nil, fs.ErrPermission }
func (f tied) ReadDir(name string) ([]fs.DirEntry, error) {
	file, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if d, ok := file.(fs.ReadDirFile); ok {
		return d.ReadDir(-1)
	}
	return nil, fs.ErrInvalid
}
func (f tied) Stat(name string) (fs.FileInfo, error) {
	file, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return file.Stat()
}
func (f tied) ReadLink(name string) (string, error) {
	if m := f.MapFS[name]; m != nil && m.Mode&fs.ModeSymlink != 0 {
		return string(m.Data), nil
	}
	return "", fs.ErrInvalid
}

// FuzzRead takes a line a file: its path, then "=" and what it says, or ">" and
// where it leads.
func FuzzRead(f *testing.F) {
	const p, b, c = sysDevices + "/", busDevices + "/", "sys/class/"
	f.Add(b + "0000:00:01.0>../../../devices/pci0000:00/0000:00:01.0\n" + p + "pci0000:00/0000:00:01.0/class=0x060400\n" +
		p + "pci0000:00/0000:00:01.0/config=\x86\x80\n")
	f.Add(p + "pci0000:00/0000:00:01.0/0000:01:00.0/uevent=PCI_CLASS=20700\n" + c + "infiniband/mlx5_0>../../devices/pci0000:00/0000:00:01.0/0000:01:00.0/infiniband/mlx5_0\n")
	f.Add(b + "0000:01:00.0/class=0x030200\n" + b + "0000:00:00.0/class=0x060400\n" + b + "0000:00:00.0/secondary_bus_number=1\n")
	f.Add(b + "0000:00:01.0>/sys/devices/pci0000:00/0000:00:01.0/0000:00:01.0\n" + b + "x>\n" + c + "net/net>..\n")
	f.Add(p + "pci0000:00/0000:00:01.0/physfn>../0000:00:01.0\nsys/bus/pci/slots/1/address=0000:00:01\n" +
		"proc/driver/nvidia/gpus/0000:00:01.0/information=Device Minor: 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		m := newMachine()
		for line := range strings.SplitSeq(text, "\n") {
			i := strings.IndexAny(line, "=>")
			if i < 0 || !fs.ValidPath(line[:i]) || line[:i] == "." {
				continue
			}
			if line[i] == '=' {
				m.file(line[:i], line[i+1:])
			} else {
				m.link(line[:i], line[i+1:])
			}
		}
		topo, err := Read(tied{m})
		if topo == nil {
			if err == nil {
				t.Fatal("nothing, and no error")
			}
			return
		}
		seen := map[Address]bool{}
		for _, d := range topo.Devices {
			if seen[d.Address] || d.Root == nil {
				t.Fatalf("%v is there twice or without a root", d.Address)
			}
			seen[d.Address] = true
			n := 0
			for up := d; up != nil; up = up.Parent {
				if n++; n > len(topo.Devices) || up.Root != d.Root {
					t.Fatalf("%v has no end above, or two roots", d.Address)
				}
			}
			_ = topo.Name(d)
		}
		answers(topo)
	})
}
