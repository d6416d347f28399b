//go:build !cgo || nomarks

package sites

import "unsafe"

// Semaphore stays 0: without the C toolchain, or with the tag nomarks, there are no sites.
var Semaphore = new(uint32)

// Post and Complete are never called.
var Post, Complete unsafe.Pointer

// Built tells whether there are sites.
const Built = false
