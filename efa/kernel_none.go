//go:build !cgo

package efa

func withoutCgo(name string) error {
	return &Error{Op: "open", Object: name, Err: ErrUnsupported,
		Detail: "built without cgo, and so without libibverbs: build with CGO_ENABLED=1, or use Embedded"}
}

// Devices lists the EFA devices of this machine by name.
func Devices() ([]string, error) { return nil, withoutCgo("") }

// Open opens a device of the machine by its name.
func Open(name string) (*Device, error) { return nil, withoutCgo(name) }

// OpenWith opens a device of the machine.
func OpenWith(name string, _ OpenOptions) (*Device, error) { return nil, withoutCgo(name) }
