// Package dl loads shared libraries while the program runs, so that one binary
// starts on a machine that lacks them and can say what is missing.
package dl

/*
#cgo linux LDFLAGS: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

static void *dl_open(const char *name, char **why) {
	void *h = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!h)
		*why = dlerror();
	return h;
}

static const char *dl_path(void *h) {
	struct link_map *m = NULL;
	if (dlinfo(h, RTLD_DI_LINKMAP, &m) || !m)
		return NULL;
	return m->l_name;
}
*/
import "C"

import (
	"strings"
	"unsafe"
)

// Library is a shared library that stays loaded until the process ends:
// providers keep threads and handlers, so none is ever unloaded.
type Library struct {
	handle unsafe.Pointer
	name   string
}

// NotFoundError tells which names were tried and what the loader said of each.
type NotFoundError struct {
	Tried []string
}

func (e *NotFoundError) Error() string {
	return "no shared library found: " + strings.Join(e.Tried, "; ")
}

// Open loads the first of the names that the dynamic loader finds.
func Open(names ...string) (*Library, error) {
	var tried []string
	for _, name := range names {
		cname := C.CString(name)
		var why *C.char
		h := C.dl_open(cname, &why)
		C.free(unsafe.Pointer(cname))
		if h != nil {
			return &Library{handle: h, name: name}, nil
		}
		tried = append(tried, C.GoString(why))
	}
	return nil, &NotFoundError{Tried: tried}
}

// Handle is the loader's handle, for C code that looks symbols up itself.
func (l *Library) Handle() unsafe.Pointer { return l.handle }

// Path is the file the loader chose, or the name asked for when it does not tell.
func (l *Library) Path() string {
	if p := C.dl_path(l.handle); p != nil {
		if s := C.GoString(p); s != "" {
			return s
		}
	}
	return l.name
}

// Symbol gives the address of the symbol's default version, or nil.
func (l *Library) Symbol(name string) unsafe.Pointer {
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	return C.dlsym(l.handle, cname)
}

// Version gives the address of one version of a symbol, as "IBVERBS_1.14".
func (l *Library) Version(name, version string) unsafe.Pointer {
	cname, cversion := C.CString(name), C.CString(version)
	defer C.free(unsafe.Pointer(cname))
	defer C.free(unsafe.Pointer(cversion))
	return C.dlvsym(l.handle, cname, cversion)
}
