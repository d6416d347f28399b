package capture

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/peerdirect/peerdirect/internal/sysroot"
)

// maxData bounds what is kept of one file; pci.Read takes less.
const maxData = 4 << 20

// recorder is a root that remembers what was read of it, by its path without
// links.
type recorder struct {
	root  fs.FS
	mask  *mask
	found map[string]entry
}

type entry struct {
	data   []byte
	link   string
	folder bool
}

func newRecorder(root fs.FS) *recorder {
	return &recorder{root: root, mask: newMask(), found: map[string]entry{}}
}

// at resolves name and remembers the links on the way.
func (r *recorder) at(name string, last bool) (string, error) {
	return sysroot.Resolve(r.root, name, last, func(at, target string) { r.keep(at, entry{link: r.mask.path(target)}) })
}

// keep remembers an entry and the folders above it.
func (r *recorder) keep(plain string, e entry) {
	for up := path.Dir(plain); up != "."; up = path.Dir(up) {
		if at := r.mask.path(up); !r.found[at].folder {
			r.found[at] = entry{folder: true}
		}
	}
	if plain != "." {
		r.found[r.mask.path(plain)] = e
	}
}

// file reads name and remembers it, masked. Later it is what was kept that counts,
// so that a capture agrees with what was read while it was made.
func (r *recorder) file(name string) ([]byte, error) {
	plain, err := r.at(name, true)
	if err != nil {
		return nil, err
	}
	data, err := fs.ReadFile(r.root, name)
	if err != nil {
		return nil, err
	}
	if len(data) > maxData {
		data = data[:maxData]
	}
	kept, ok := r.mask.file(plain, data)
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	r.keep(plain, entry{data: kept})
	return kept, nil
}

func (r *recorder) Open(name string) (fs.File, error) {
	info, err := r.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		if _, err := r.ReadDir(name); err != nil {
			return nil, err
		}
		return r.root.Open(name)
	}
	data, err := r.file(name)
	if err != nil {
		return nil, err
	}
	return &opened{Reader: strings.NewReader(string(data)), info: info}, nil
}

type opened struct {
	*strings.Reader
	info fs.FileInfo
}

func (o *opened) Stat() (fs.FileInfo, error) { return o.info, nil }
func (o *opened) Close() error               { return nil }

func (r *recorder) ReadFile(name string) ([]byte, error) { return r.file(name) }

func (r *recorder) ReadInto(name string, b []byte) (int, error) {
	data, err := r.file(name)
	return copy(b, data), err
}

// ReadDir remembers the folders and links of a folder, which mean something by
// being there; of files only those that are read.
func (r *recorder) ReadDir(name string) ([]fs.DirEntry, error) {
	plain, err := r.at(name, true)
	if err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(r.root, name)
	if err != nil && len(entries) == 0 {
		return nil, err
	}
	r.keep(plain, entry{folder: true})
	for _, e := range entries {
		at := path.Join(plain, e.Name())
		switch _, known := r.found[r.mask.path(at)]; {
		case known:
		case e.IsDir():
			r.keep(at, entry{folder: true})
		case e.Type() == fs.ModeSymlink:
			_, err = r.ReadLink(path.Join(name, e.Name()))
			if errors.Is(err, fs.ErrNotExist) {
				err = nil // gone meanwhile
			}
		}
	}
	return entries, err
}

func (r *recorder) ReadLink(name string) (string, error) {
	target, err := fs.ReadLink(r.root, name)
	if err != nil {
		return "", err
	}
	plain, err := r.at(name, false)
	if err != nil {
		return "", err
	}
	r.keep(plain, entry{link: r.mask.path(target)})
	// What it leads to is there too, if it is a folder.
	if info, err := fs.Stat(r.root, name); err == nil && info.IsDir() {
		if end, err := r.at(name, true); err == nil {
			r.seen(end, info)
		}
	}
	return target, nil
}

func (r *recorder) Stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(r.root, name)
	if err != nil {
		return nil, err
	}
	plain, err := r.at(name, true)
	if err != nil {
		return nil, err
	}
	r.seen(plain, info)
	return info, nil
}

func (r *recorder) Lstat(name string) (fs.FileInfo, error) {
	info, err := fs.Lstat(r.root, name)
	if err != nil {
		return nil, err
	}
	if info.Mode().Type() == fs.ModeSymlink {
		_, err := r.ReadLink(name)
		return info, err
	}
	plain, err := r.at(name, true)
	if err != nil {
		return nil, err
	}
	r.seen(plain, info)
	return info, nil
}

// seen remembers that something is there.
func (r *recorder) seen(plain string, info fs.FileInfo) {
	if _, known := r.found[r.mask.path(plain)]; !known {
		r.keep(plain, entry{folder: info.IsDir()})
	}
}
