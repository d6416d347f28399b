package pci

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
)

// into is what a root may offer beside fs.FS: to read the first bytes of a file
// without making anything.
type into interface {
	ReadInto(name string, b []byte) (int, error)
}

// bytes gives the first bytes of a file, max at most; they are good until the next
// read. false: the file is not there, or cannot be read, which is remembered.
func (r *reader) bytes(name string, max int) ([]byte, bool) {
	if len(r.buf) < max {
		r.buf = make([]byte, max)
	}
	n, err := r.readInto(name, r.buf[:max])
	if err != nil {
		r.missed(name, err)
		return nil, false
	}
	return r.buf[:n], true
}

// missed remembers a file that could not be read, unless it is not there: a device
// may go while it is read, or have no such register.
func (r *reader) missed(name string, err error) {
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENODEV) && !errors.Is(err, syscall.ENOTDIR) {
		r.fail("read", name, err)
	}
}

func (r *reader) readInto(name string, b []byte) (int, error) {
	if in, ok := r.below(name); ok {
		return r.folder.ReadInto(in, b)
	}
	if fast, ok := r.root.(into); ok {
		return fast.ReadInto(name, b)
	}
	f, err := r.root.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n := 0
	for n < len(b) {
		m, err := f.Read(b[n:])
		n += m
		if err == io.EOF || err == nil && m == 0 {
			break
		}
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

// text gives what a file says, without the space around it; of a long file, its
// first 4,096 bytes. false as bytes.
func (r *reader) text(name string) (string, bool) {
	b, ok := r.bytes(name, 4096)
	if !ok {
		return "", false
	}
	return strings.TrimSpace(string(b)), true
}

// hex reads a number as sysfs writes identifiers: 0x15b3.
func (r *reader) hex(name string) (uint64, bool) {
	s, ok := r.text(name)
	if !ok {
		return 0, false
	}
	v, ok := hexNumber(strings.TrimPrefix(s, "0x"))
	if !ok {
		r.fail("read", name, fmt.Errorf("%q is no hexadecimal number", clip(s)))
	}
	return v, ok
}

// link gives where a link leads, as it is written; false if it is none.
func (r *reader) link(name string) (string, bool) {
	if r.links == nil {
		return "", false
	}
	links, at := r.links, name
	if in, ok := r.below(name); ok {
		links, at = r.folder, in
	}
	target, err := links.ReadLink(at)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrInvalid) && // it is no link
			!errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTDIR) {
			r.fail("read", name, err)
		}
		return "", false
	}
	if len(target) > 4096 {
		r.fail("read", name, errors.New("the link is longer than a path may be"))
		return "", false
	}
	return target, true
}

// list gives the names in a folder in order; nil, false if it is not there or
// cannot be read, which is remembered.
func (r *reader) list(name string) ([]fs.DirEntry, bool) {
	var entries []fs.DirEntry
	var err error
	if in, ok := r.below(name); ok {
		entries, err = r.folder.ReadDir(in)
	} else {
		entries, err = fs.ReadDir(r.root, name)
	}
	if err != nil && len(entries) == 0 {
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			r.fail("list", name, err)
		}
		return nil, false
	}
	if err != nil {
		r.fail("list", name, err)
	}
	return entries, true
}
