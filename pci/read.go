package pci

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"
)

// ErrNoDevice: there is no PCI device in what was read.
var ErrNoDevice = error(syscall.ENODEV)

// Error is a part of the topology that could not be read.
type Error struct {
	Op     string // "read", "list", "place", …
	Object string // the path below the root, or the device
	More   int    // others of the same name that failed in the same way
	Err    error
}

func (e *Error) Error() string {
	more := ""
	if e.More > 0 {
		more = fmt.Sprintf(", and %d more like it", e.More)
	}
	return fmt.Sprintf("%s %s%s: %v", e.Op, e.Object, more, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Read reads the machine whose root is given: its /sys and what it needs of its
// /proc. What could be read is in the Topology, what could not is joined in the
// error, each an *Error; both may be there. Without any PCI device the Topology is
// nil and the error ErrNoDevice. Links are followed by root: internal/sysroot keeps
// those of a capture inside it, os.DirFS does not.
func Read(root fs.FS) (*Topology, error) {
	r := newReader(root)
	r.structure()
	if len(r.t.Devices) == 0 {
		r.remember(failure{}, &Error{Op: "list", Object: busDevices,
			Err: fmt.Errorf("%w: there is no PCI function here; is it the root of a system, with its sys folder?", ErrNoDevice)})
		return nil, r.err()
	}
	r.nodes()
	r.each(func(r *reader, d *Device, dir string) {
		if r.identity(d, dir) {
			r.attributes(d, dir)
			r.physical(d, dir)
		}
	})
	r.adopt()
	r.slots()
	r.unclassed()
	r.nvidia()
	r.platform()
	r.iommu()
	Assemble(r.t)
	return r.t, r.err()
}

// reader holds the root while it is read.
type reader struct {
	root  fs.FS
	links fs.ReadLinkFS // nil if the root has no links
	t     *Topology

	at      map[Address]*Device
	dirs    map[*Device]string // below the root
	rootsAt map[string]*Root   // by path
	lost    []*Device          // their entries are no links, so their places are unknown
	classes map[string]bool    // folders of /sys/class that could be read
	walked  int                // folders below /sys/devices

	folder folder // the one that was entered; nil is none
	inside string // its path and "/"

	buf  []byte
	errs []*Error
	keys []failure // of errs
	seen map[failure]*Error

	shared *shared
}

type failure struct{ op, name, cause string }

func newReader(root fs.FS) *reader {
	r := &reader{
		root: root, t: &Topology{},
		at: map[Address]*Device{}, dirs: map[*Device]string{}, rootsAt: map[string]*Root{}, classes: map[string]bool{},
		buf: make([]byte, 4096), seen: map[failure]*Error{}, shared: &shared{},
	}
	r.links, _ = root.(fs.ReadLinkFS)
	return r
}

// fail remembers what could not be had. Failures of one kind are one error: a
// machine of 4,000 devices has 4,000 of each.
func (r *reader) fail(op, object string, err error) {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	key := failure{op, path.Base(object), err.Error()}
	if strings.Contains(key.name, ":") {
		key.name = "" // an address
	}
	if e := r.seen[key]; e != nil {
		e.More++
		return
	}
	r.remember(key, &Error{Op: op, Object: object, Err: err})
}

func (r *reader) remember(key failure, e *Error) {
	r.seen[key] = e
	r.errs = append(r.errs, e)
	r.keys = append(r.keys, key)
}

func (r *reader) err() error {
	all := make([]error, len(r.errs))
	for i, e := range r.errs {
		all[i] = e
	}
	return errors.Join(all...)
}

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
	entries, err := fs.ReadDir(r.root, name)
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
