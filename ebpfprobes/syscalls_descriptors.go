package ebpfprobes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
)

// membership is what becomes of calls on a descriptor.
type membership uint8

const (
	unconfirmed membership = iota // nobody knows what it was
	shown                         // it is an uverbs device's
	foreign                       // it is not
)

// descriptors knows what the descriptors are that calls were seen on, by their ids.
type descriptors struct {
	mu    sync.Mutex
	known map[uint64]descriptor
}

type descriptor struct {
	device string // "" is unknown
	membership
	looked bool // in /proc
}

// see looks a descriptor up in /proc, once: it may be another file's later.
func (d *descriptors) see(id uint64, pid, fd int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known[id].looked {
		return
	}
	k := descriptor{looked: true}
	k.device, k.membership = lookAt("/", pid, fd)
	d.set(id, k)
}

func (d *descriptors) set(id uint64, to descriptor) {
	if d.known == nil {
		d.known = make(map[uint64]descriptor)
	}
	d.known[id] = to
}

// of tells the device of calls. Sure are those on a descriptor that took an ioctl of RDMA:
// it is an uverbs device's whatever /proc told, or did not live to tell.
func (d *descriptors) of(id uint64, sure bool) (device string, v membership) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := d.known[id]
	if sure && k.membership != shown {
		k.membership = shown // of its other calls too
		d.set(id, k)
	}
	return k.device, k.membership
}

func (d *descriptors) forget(id uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, id)
}

// lookAt tells the RDMA device that a process's descriptor is of: by the device's number,
// since its name is the process's own affair.
func lookAt(root string, pid, fd int) (device string, v membership) {
	info, err := os.Stat(fmt.Sprintf("%s/proc/%d/fd/%d", root, pid, fd))
	if err != nil {
		return "", unconfirmed // it is gone, or not to be looked at
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode()&fs.ModeCharDevice == 0 {
		return "", foreign
	}
	number := fmt.Sprintf("%d:%d", unix.Major(s.Rdev), unix.Minor(s.Rdev))
	name, err := os.ReadFile(root + "/sys/dev/char/" + number + "/ibdev")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", foreign
	case err != nil:
		return "", unconfirmed
	}
	return strings.TrimSpace(string(name)), shown
}

// look looks at descriptors when they are first seen.
func (s *SyscallSession) look() {
	var record ringbuf.Record
	for s.sightings.ReadInto(&record) == nil {
		var seen objects.SyscallsSighting
		if _, err := binary.Decode(record.RawSample, binary.NativeEndian, &seen); err == nil {
			s.descriptors.see(seen.Id, int(seen.Descriptor.Tgid), int(seen.Descriptor.Fd))
		}
	}
}
