package dl

import (
	"fmt"
	"sync"
	"unsafe"
)

// TooOldError: a library lacks a function that is needed.
type TooOldError struct {
	Path, Missing string
}

func (e *TooOldError) Error() string { return fmt.Sprintf("%s has no %s", e.Path, e.Missing) }

// Runtime is the library of an accelerator's vendor: loaded when it is first asked
// for, started once, and never unloaded.
type Runtime struct {
	// Name is what the library's package installs.
	Name string
	// Load looks up the functions by the library's handle, and gives the first that
	// there is not, or "".
	Load func(handle unsafe.Pointer) (missing string)
	// Start starts it, or takes part in the one that other code of the process
	// started.
	Start func() error

	load    sync.Once
	library *Library
	err     error

	start   sync.Mutex
	started bool
}

// Library loads the library: an error is a *NotFoundError or a *TooOldError, and the
// same ever after.
func (r *Runtime) Library() (*Library, error) {
	r.load.Do(func() {
		lib, err := Open(r.Name)
		if err == nil {
			if missing := r.Load(lib.Handle()); missing != "" {
				lib, err = nil, &TooOldError{lib.Path(), missing}
			}
		}
		r.library, r.err = lib, err
	})
	return r.library, r.err
}

// Init loads and starts it. Where starting fails, the next call tries again.
func (r *Runtime) Init() error {
	if _, err := r.Library(); err != nil {
		return err
	}
	r.start.Lock()
	defer r.start.Unlock()
	if r.started {
		return nil
	}
	err := r.Start()
	r.started = err == nil
	return err
}
