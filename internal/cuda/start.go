package cuda

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/peerdirect/peerdirect/internal/dl"
)

// StartError tells why the driver did not start, and what to do.
type StartError struct {
	Op     string // "cuInit", "dlopen libcuda.so.1"
	Err    error  // a Result or a class: errors.Is finds ENODEV, fs.ErrPermission or errors.ErrUnsupported
	Cause  string // "" where Err says all
	Remedy string // "" where none is known
}

func (e *StartError) Error() string {
	text := e.Op + ": "
	if e.Cause != "" {
		text += e.Cause
	} else {
		text += e.Err.Error()
	}
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

func (e *StartError) Unwrap() error { return e.Err }

// Control is the device node that every program of CUDA's opens first.
const Control = "/dev/nvidiactl"

// classed is an error that is found under a class too.
type classed struct {
	error
	class error
}

func (e classed) Unwrap() []error { return []error{e.error, e.class} }

// Start is Init, with its errors explained: each is a *StartError.
func Start() error {
	err := Init()
	var old *dl.TooOldError
	var failed *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &old):
		return &StartError{"dlopen " + LibraryName, errors.ErrUnsupported, err.Error(), "install a driver from 515 on"}
	case !errors.As(err, &failed):
		return &StartError{"dlopen " + LibraryName, syscall.ENODEV, err.Error(), "install NVIDIA's driver, in a container start it with its runtime"}
	}
	if fd, denied := syscall.Open(Control, syscall.O_RDWR|syscall.O_CLOEXEC, 0); denied == nil {
		syscall.Close(fd)
	} else if errors.Is(denied, fs.ErrPermission) {
		return &StartError{failed.Op, classed{failed.Result, fs.ErrPermission},
			fmt.Sprintf("%v; open %s: %v", failed.Result, Control, denied), "join the node's group, or ask as root"}
	}
	err = failed.Result
	if !errors.Is(err, syscall.ENODEV) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errors.ErrUnsupported) {
		err = classed{failed.Result, syscall.ENODEV}
	}
	return &StartError{failed.Op, err, "", failed.Result.Remedy()}
}
