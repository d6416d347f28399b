package dmabuf

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"golang.org/x/sys/unix"
)

// What the exporters of accelerators have in common.

// ordinal is the number of a device in an exporter's name, 0 where there is
// none.
func ordinal(family, rest string) (int, error) {
	if rest == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(rest)
	if err != nil || n < 0 {
		return 0, &Error{Op: "open", Exporter: family + ":" + rest, Err: ErrUnsupported,
			Detail: fmt.Sprintf("the names are %s:0, %s:1 and so on", family, family)}
	}
	return n, nil
}

// anyClass: the error is of one that Available promises.
func anyClass(err error) bool {
	return errors.Is(err, ErrNoDevice) || errors.Is(err, ErrPermission) || errors.Is(err, ErrUnsupported)
}

// withClass is a library's status that errors.Is finds under a class too.
type withClass struct {
	error
	class error
}

func (e withClass) Unwrap() []error { return []error{e.error, e.class} }

// descriptorLeft tells whether the process can open one more: the library's
// own status does not say it.
func descriptorLeft() error {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// move copies by an engine of the accelerator between p and the memory from off
// on.
func (m *hostMemory) move(op string, p []byte, off int64, f func(b []byte, at uint64) error) (int, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.open(op); err != nil {
		return 0, err
	}
	return moveAt(op, m.exporter, m.size, p, off, f)
}

// moveAt calls f with what there is of p from off on, in memory of that size, and
// gives io.EOF past the end.
func moveAt(op, exporter string, size uint64, p []byte, off int64, f func(b []byte, at uint64) error) (int, error) {
	if off < 0 || uint64(off) > size {
		return 0, &Error{Op: op, Exporter: exporter, Err: ErrRange, Detail: fmt.Sprintf("offset %d of %d bytes", off, size)}
	}
	b := p[:min(uint64(len(p)), size-uint64(off))]
	if err := f(b, uint64(off)); err != nil {
		return 0, err
	}
	if len(b) < len(p) {
		return len(b), io.EOF
	}
	return len(b), nil
}
