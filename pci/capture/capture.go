// Package capture packs what the topology of a machine is read from into a tar
// that another engineer can read with pci.Read and internal/sysroot: what pci.Read
// touched while it read the machine, and nothing else. What tells one machine from
// another of its kind is left out or replaced: serial numbers, UUIDs, GUIDs, MAC
// addresses.
package capture

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"

	"github.com/peerdirect/peerdirect/pci"
)

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
