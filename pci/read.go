package pci

import (
	"errors"
	"fmt"
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
// nil and the error ErrNoDevice. Links are followed by root: capture.Open keeps
// those of a capture inside it, os.DirFS does not.
func Read(root fs.FS) (*Topology, error) { return newReader(root).all() }

// ReadOutline reads what the tree, distances and pairing of a machine need, from
// fewer than half of the files that Read takes. Of devices the CPUs, BARs, ACS, Group,
// PeerMem, Slot and Memory stay unknown, of RDMA the GUID and the layer, and
// Platform.P2PDMA. A virtual function beside its physical one has that one's Vendor
// and Class, as SR-IOV has it, and its Product, Driver, Port and Node stay unknown.
// Topology.Outline says so.
func ReadOutline(root fs.FS) (*Topology, error) {
	r := newReader(root)
	r.t.Outline = true
	return r.all()
}

func (r *reader) all() (*Topology, error) {
	r.structure()
	if len(r.t.Devices) == 0 {
		r.remember(failure{}, &Error{Op: "list", Object: busDevices,
			Err: fmt.Errorf("%w: there is no PCI function here; is it the root of a system, with its sys folder?", ErrNoDevice)})
		return nil, r.err()
	}
	r.nodes()
	r.each((*reader).function)
	r.adopt()
	if !r.t.Outline {
		r.slots()
	}
	r.unclassed()
	r.nvidia()
	r.platform()
	r.iommu()
	r.inherit()
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
	rdmaAt  map[string]string  // folders of infiniband devices, by name
	lost    []*Device          // their entries are no links, so their places are unknown
	classes map[string]bool    // folders of /sys/class that could be read
	walked  int                // folders below /sys/devices

	folder folder // the one that was entered; nil is none
	inside string // its path and "/"

	buf []byte
	failures

	shared *shared
}

// failures are what could not be had, one error for all of a kind.
type failures struct {
	errs []*Error
	keys []failure // of errs
	seen map[failure]*Error

	untold int // beyond maxErrors
}

type failure struct{ op, name, cause string }

func newReader(root fs.FS) *reader {
	r := &reader{
		root: root, t: &Topology{},
		rootsAt: map[string]*Root{},
		rdmaAt:  map[string]string{}, classes: map[string]bool{},
		buf: make([]byte, 4096), shared: &shared{},
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

// maxErrors bounds the kinds of failure that are told one by one.
const maxErrors = 100

func (r *reader) remember(key failure, e *Error) {
	if len(r.errs) == maxErrors {
		r.untold += 1 + e.More
		return
	}
	if r.seen == nil {
		r.seen = map[failure]*Error{}
	}
	r.seen[key] = e
	r.errs = append(r.errs, e)
	r.keys = append(r.keys, key)
}

func (r *reader) err() error {
	all := make([]error, len(r.errs))
	for i, e := range r.errs {
		all[i] = e
	}
	if r.untold > 0 {
		all = append(all, &Error{Op: "read", Object: "sys", Err: fmt.Errorf("%d more failures, of other kinds, are left out", r.untold)})
	}
	return errors.Join(all...)
}
