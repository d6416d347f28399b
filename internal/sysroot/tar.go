package sysroot

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Tar gives a tar, plain or compressed by gzip, bzip2 or xz, as a root. It is read
// into memory. Its root is the folder that holds sys, at the top or below folders
// that hold nothing else.
func Tar(name string) (fs.FS, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	root, err := ReadTar(f)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return root, nil
}

// ReadTar is Tar of a stream.
func ReadTar(r io.Reader) (fs.FS, error) {
	plain, err := unpacked(bufio.NewReader(r))
	if err != nil {
		return nil, err
	}
	bounded := &io.LimitedReader{R: plain, N: maxTar}
	t := &tarFS{root: &node{mode: fs.ModeDir | 0o755}}
	var size int64
	files := 0
	for r := tar.NewReader(bounded); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if bounded.N <= 0 {
			return nil, errTooBig
		}
		if err != nil {
			return nil, fmt.Errorf("no tar, or a damaged one (entry %d): %w; unpack what can be read and give the folder", files+1, err)
		}
		if h.Size > maxFile {
			return nil, fmt.Errorf("%s has %d bytes: too large for a file of /sys or /proc", h.Name, h.Size)
		}
		size += h.Size
		if files++; size > maxTar || files > maxFiles {
			return nil, errTooBig
		}
		if err := t.add(h, r); err != nil {
			return nil, fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	if files == 0 {
		return nil, errors.New("an empty tar, or none")
	}
	t.root = t.root.base()
	return t, nil
}

var errTooBig = fmt.Errorf("more than %d MiB or %d files: no capture of /sys; unpack it and give the folder", maxTar>>20, maxFiles)

// unpacked looks at the first bytes for the compression.
func unpacked(r *bufio.Reader) (io.Reader, error) {
	head, err := r.Peek(6)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		return gzip.NewReader(r)
	case bytes.HasPrefix(head, []byte("BZh")):
		return bzip2.NewReader(r), nil
	case bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")):
		return unxz(r)
	case bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")):
		return nil, errors.New("compressed by zstd, which is not read here: zstd -d it, and give the tar")
	}
	return r, nil
}

// node is a file, folder or link of a tar.
type node struct {
	name     string
	mode     fs.FileMode
	time     time.Time
	data     []byte
	link     string
	children map[string]*node
}

func (n *node) child(name string) *node { return n.children[name] }

func (n *node) put(name string, c *node) {
	if n.children == nil {
		n.children = map[string]*node{}
	}
	c.name = name
	n.children[name] = c
}

// base finds the folder that holds sys.
func (n *node) base() *node {
	for at := n; ; {
		if sys := at.child("sys"); sys != nil || len(at.children) != 1 {
			if sys == nil {
				return n
			}
			return at
		}
		for _, c := range at.children {
			at = c
		}
	}
}

// add puts an entry into the tree; folders that it lacks are made.
func (t *tarFS) add(h *tar.Header, r io.Reader) error {
	clean := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
	if clean == "" {
		return nil // the root itself
	}
	if !fs.ValidPath(clean) {
		return errors.New("a name that is not UTF-8: damaged; pack it again")
	}
	parts := strings.Split(clean, "/")
	if len(parts) > 256 {
		return errors.New("too deep")
	}
	at := t.root
	for _, part := range parts[:len(parts)-1] {
		next := at.child(part)
		if next == nil {
			next = &node{mode: fs.ModeDir | 0o755, time: h.ModTime}
			at.put(part, next)
		}
		if !next.mode.IsDir() {
			return fmt.Errorf("below %s, which is no folder: damaged; pack it again", part)
		}
		at = next
	}
	name := parts[len(parts)-1]
	n := &node{mode: h.FileInfo().Mode(), time: h.ModTime}
	switch h.Typeflag {
	case tar.TypeDir:
		if old := at.child(name); old != nil && old.mode.IsDir() {
			return nil
		}
	case tar.TypeSymlink:
		n.link = h.Linkname
	case tar.TypeLink:
		same, err := t.node(strings.TrimPrefix(path.Clean("/"+h.Linkname), "/"), false)
		if err != nil || same.mode.IsDir() {
			return fmt.Errorf("a hard link to %s, which is not before it in the tar", h.Linkname)
		}
		n.mode, n.data, n.link = same.mode, same.data, same.link
	case tar.TypeReg:
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		n.data = data
	}
	at.put(name, n)
	return nil
}

type tarFS struct{ root *node }

// node finds name, through links, the last one too if last.
func (t *tarFS) node(name string, last bool) (*node, error) {
	plain, err := follow(name, last, func(p string) (string, error) {
		n, err := t.plain(p)
		if err != nil {
			return "", err
		}
		return n.link, nil
	})
	if err != nil {
		return nil, err
	}
	return t.plain(plain)
}

// plain finds a path without links.
func (t *tarFS) plain(name string) (*node, error) {
	at := t.root
	for part := range strings.SplitSeq(name, "/") {
		if part == "." || part == "" {
			continue
		}
		if !at.mode.IsDir() {
			return nil, syscall.ENOTDIR
		}
		if at = at.child(part); at == nil {
			return nil, syscall.ENOENT
		}
	}
	return at, nil
}

func (t *tarFS) find(op, name string, last bool) (*node, error) {
	if err := check(op, name); err != nil {
		return nil, err
	}
	n, err := t.node(name, last)
	if err != nil {
		return nil, pathError(op, name, err)
	}
	return n, nil
}

func (t *tarFS) Open(name string) (fs.File, error) {
	n, err := t.find("open", name, true)
	if err != nil {
		return nil, err
	}
	f := &tarFile{info: tarInfo{path.Base(name), n}, Reader: bytes.NewReader(n.data)}
	if n.mode.IsDir() {
		f.entries = n.entries()
	}
	return f, nil
}

func (t *tarFS) ReadFile(name string) ([]byte, error) {
	n, err := t.find("open", name, true)
	if err != nil {
		return nil, err
	}
	if n.mode.IsDir() {
		return nil, pathError("read", name, syscall.EISDIR)
	}
	return slices.Clone(n.data), nil
}

// ReadInto is as a folder's.
func (t *tarFS) ReadInto(name string, b []byte) (int, error) {
	n, err := t.find("open", name, true)
	if err != nil {
		return 0, err
	}
	if n.mode.IsDir() {
		return 0, pathError("read", name, syscall.EISDIR)
	}
	return copy(b, n.data), nil
}

func (t *tarFS) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := t.find("open", name, true)
	if err != nil {
		return nil, err
	}
	if !n.mode.IsDir() {
		return nil, pathError("readdir", name, syscall.ENOTDIR)
	}
	return n.entries(), nil
}

func (t *tarFS) ReadLink(name string) (string, error) {
	n, err := t.find("readlink", name, false)
	if err != nil {
		return "", err
	}
	if n.mode.Type() != fs.ModeSymlink {
		return "", pathError("readlink", name, syscall.EINVAL)
	}
	return n.link, nil
}

func (t *tarFS) Stat(name string) (fs.FileInfo, error)  { return t.stat("stat", name, true) }
func (t *tarFS) Lstat(name string) (fs.FileInfo, error) { return t.stat("lstat", name, false) }

func (t *tarFS) stat(op, name string, last bool) (fs.FileInfo, error) {
	n, err := t.find(op, name, last)
	if err != nil {
		return nil, err
	}
	return tarInfo{path.Base(name), n}, nil
}

func (n *node) entries() []fs.DirEntry {
	entries := make([]fs.DirEntry, 0, len(n.children))
	for name, c := range n.children {
		entries = append(entries, fs.FileInfoToDirEntry(tarInfo{name, c}))
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries
}

type tarInfo struct {
	name string
	node *node
}

func (i tarInfo) Name() string       { return i.name }
func (i tarInfo) Size() int64        { return int64(len(i.node.data)) }
func (i tarInfo) Mode() fs.FileMode  { return i.node.mode }
func (i tarInfo) ModTime() time.Time { return i.node.time }
func (i tarInfo) IsDir() bool        { return i.node.mode.IsDir() }
func (i tarInfo) Sys() any           { return nil }

type tarFile struct {
	*bytes.Reader
	info    tarInfo
	entries []fs.DirEntry
}

func (f *tarFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *tarFile) Close() error               { return nil }

func (f *tarFile) Read(b []byte) (int, error) {
	if f.info.IsDir() {
		return 0, pathError("read", f.info.name, syscall.EISDIR)
	}
	return f.Reader.Read(b)
}

func (f *tarFile) ReadDir(n int) ([]fs.DirEntry, error) {
	if !f.info.IsDir() {
		return nil, pathError("readdir", f.info.name, syscall.ENOTDIR)
	}
	return take(&f.entries, n)
}
