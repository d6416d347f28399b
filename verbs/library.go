package verbs

/*
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/peerdirect/peerdirect/internal/dl"
)

// libraryNames are tried in this order; the plain name is only there on
// machines with the development package.
var libraryNames = []string{"libibverbs.so.1", "libibverbs.so"}

// library loads libibverbs once. It is never unloaded: its providers keep
// state for the life of the process.
var library = sync.OnceValues(func() (*dl.Library, error) {
	lib, err := dl.Open(libraryNames...)
	if err != nil {
		return nil, &Error{
			Verb:   "dlopen",
			Object: libraryNames[0],
			Err:    ErrNoDevice,
			Detail: fmt.Sprintf("%v; install rdma-core's libibverbs1 and ibverbs-providers", err),
		}
	}
	if missing := C.vb_load(lib.Handle()); missing != nil {
		return nil, &Error{
			Verb:   C.GoString(missing),
			Object: lib.Path(),
			Err:    ErrUnsupported,
			Detail: "the library is older than rdma-core 28; install a newer libibverbs1",
		}
	}
	return lib, nil
})

// Library gives the path of the libibverbs in use, or why there is none.
func Library() (string, error) {
	lib, err := library()
	if err != nil {
		return "", err
	}
	return lib.Path(), nil
}

// HasFunction tells whether the loaded libibverbs exports a function, for
// callers that choose between two ways before they try.
func HasFunction(name string) bool {
	if _, err := library(); err != nil {
		return false
	}
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	return C.vb_symbol(cname) != nil
}

// unsupported is the error for a function that the loaded library lacks.
func unsupported(verb, object string) error {
	return &Error{Verb: verb, Object: object, Err: ErrUnsupported, Detail: "not in the libibverbs that is loaded"}
}
