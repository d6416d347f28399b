// Package capture packs what the topology of a machine is read from into a tar, and
// opens such tars as system roots: what pci.Read touched while it read the machine,
// and nothing else. What tells one machine from another of its kind is left out or
// replaced: serial numbers, UUIDs, GUIDs, MAC addresses.
//
// Writing needs no more privilege than pci.Read does: config space beyond the first
// 64 bytes is for root, and a capture made by another user lacks it. Roots that Open
// and Read give may be read by several goroutines and need not be closed.
package capture

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"

	_ "github.com/peerdirect/peerdirect/internal/needs/linux"
	"github.com/peerdirect/peerdirect/internal/sysroot"
	"github.com/peerdirect/peerdirect/pci"
)

// Open gives the system root at name, for pci.Read: a folder that is taken as "/", or
// a tar of one, plain or compressed by gzip, bzip2 or xz, which is read into memory.
// Links stay inside the root, absolute ones and those with ".." too: a capture of
// another machine never shows a file of this one. The root also has fs.ReadFileFS,
// fs.ReadDirFS, fs.StatFS and fs.ReadLinkFS.
//
// Errors are fs.PathErrors. A tar of more than 512 MiB, a million files, or with a
// file of more than 64 MiB is refused.
func Open(name string) (fs.FS, error) { return sysroot.Open(name) }

// Read is Open of a tar that comes as a stream, for instance over a connection.
func Read(r io.Reader) (fs.FS, error) { return sysroot.ReadTar(r) }

// Summary is what a capture holds.
type Summary struct {
	Devices int   // PCI functions
	Files   int   // with text
	Bytes   int64 // of these
	Partial error // what pci.Read could not have: the capture lacks it too
}

// Write writes the capture of root as a tar, plain, in order of path and without
// times: of one machine, twice the same bytes. Without any PCI device it writes
// nothing and the error is pci.ErrNoDevice.
func Write(w io.Writer, root fs.FS) (Summary, error) {
	rec := newRecorder(root)
	t, err := pci.Read(rec)
	if t == nil {
		return Summary{}, err
	}
	s := Summary{Devices: len(t.Devices), Partial: err}
	tw := tar.NewWriter(w)
	for _, name := range slices.Sorted(maps.Keys(rec.found)) {
		n := rec.found[name]
		h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(n.data))}
		switch {
		case n.folder:
			h.Name, h.Typeflag, h.Mode = name+"/", tar.TypeDir, 0o755
		case n.link != "":
			h.Linkname, h.Typeflag, h.Mode = n.link, tar.TypeSymlink, 0o777
		default:
			s.Files++
			s.Bytes += h.Size
		}
		if err := tw.WriteHeader(h); err != nil {
			return s, fmt.Errorf("write capture: %s: %w", name, err)
		}
		if _, err := tw.Write(n.data); err != nil {
			return s, fmt.Errorf("write capture: %s: %w", name, err)
		}
	}
	if err := tw.Close(); err != nil {
		return s, fmt.Errorf("write capture: %w", err)
	}
	return s, nil
}
