package sysroot

import (
	"encoding/binary"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dents are buffers for getdents.
var dents = sync.Pool{New: func() any { return new([16 << 10]byte) }}

// entries reads a folder, in order of name.
func (d *dir) entries(name string, fd int) ([]fs.DirEntry, error) {
	var entries []fs.DirEntry
	buf := dents.Get().(*[16 << 10]byte)
	defer dents.Put(buf)
	for {
		n, err := unix.Getdents(fd, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
			return entries, err
		}
		for b := buf[:n]; len(b) > 0; {
			e, rest := d.entry(name, b)
			if b = rest; e != nil {
				entries = append(entries, e)
			}
			if len(entries) > maxFiles {
				return nil, unix.EFBIG
			}
		}
	}
}

// entry takes one struct linux_dirent64 from b; nil is "." or "..".
func (d *dir) entry(in string, b []byte) (e fs.DirEntry, rest []byte) {
	const head = 19 // d_ino, d_off, d_reclen, d_type
	size := int(binary.NativeEndian.Uint16(b[16:]))
	kind := b[18]
	raw := b[head:size]
	if i := slices.Index(raw, 0); i >= 0 {
		raw = raw[:i]
	}
	rest = b[size:]
	name := string(raw)
	if name == "." || name == ".." {
		return nil, rest
	}
	if kind == unix.DT_UNKNOWN {
		info, err := d.Lstat(path.Join(in, name))
		if err != nil {
			return nil, rest // gone meanwhile
		}
		return fs.FileInfoToDirEntry(info), rest
	}
	// d_type is the type of st_mode.
	return &dirEntry{d, in, name, modeOf(uint32(kind) << 12).Type()}, rest
}

type dirEntry struct {
	dir      *dir
	in, name string
	mode     fs.FileMode
}

func (e *dirEntry) Name() string               { return e.name }
func (e *dirEntry) IsDir() bool                { return e.mode.IsDir() }
func (e *dirEntry) Type() fs.FileMode          { return e.mode }
func (e *dirEntry) Info() (fs.FileInfo, error) { return e.dir.Lstat(path.Join(e.in, e.name)) }
func (e *dirEntry) String() string             { return fs.FormatDirEntry(e) }

type statInfo struct {
	name string
	st   unix.Stat_t
}

func (i statInfo) Name() string       { return i.name }
func (i statInfo) Size() int64        { return i.st.Size }
func (i statInfo) Mode() fs.FileMode  { return modeOf(i.st.Mode) }
func (i statInfo) ModTime() time.Time { return time.Unix(i.st.Mtim.Unix()) }
func (i statInfo) IsDir() bool        { return i.Mode().IsDir() }
func (i statInfo) Sys() any           { return nil }
func (i statInfo) String() string     { return fs.FormatFileInfo(i) }

func modeOf(st uint32) fs.FileMode {
	mode := fs.FileMode(st & 0o777)
	switch st & syscall.S_IFMT {
	case syscall.S_IFDIR:
		mode |= fs.ModeDir
	case syscall.S_IFLNK:
		mode |= fs.ModeSymlink
	case syscall.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case syscall.S_IFSOCK:
		mode |= fs.ModeSocket
	case syscall.S_IFBLK:
		mode |= fs.ModeDevice
	case syscall.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	}
	return mode
}

// file is an open file; a folder's entries come from its root, by their path.
type file struct {
	dir     *dir
	name    string
	fd      *os.File
	entries []fs.DirEntry
	listed  bool
}

func (f *file) Close() error { return f.fd.Close() }

func (f *file) Read(b []byte) (int, error) { return f.fd.Read(b) }

func (f *file) Stat() (fs.FileInfo, error) { return f.dir.Stat(f.name) }

func (f *file) ReadDir(n int) ([]fs.DirEntry, error) {
	if !f.listed {
		entries, err := f.dir.ReadDir(f.name)
		if err != nil {
			return entries, err
		}
		f.entries, f.listed = entries, true
	}
	return take(&f.entries, n)
}

// take gives the next n entries, all if n is none, as fs.ReadDirFile says.
func take(entries *[]fs.DirEntry, n int) ([]fs.DirEntry, error) {
	all := *entries
	if n <= 0 {
		*entries = nil
		return slices.Clip(all), nil
	}
	if len(all) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(all))
	*entries = all[n:]
	return all[:n:n], nil
}
