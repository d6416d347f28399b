// Package dmabuf gives accelerator memory as DMA-BUF descriptors, the form in
// which a NIC's driver registers memory that is not the host's. An [Exporter]
// is one way to such memory: a driver, and a device of it. It says whether it
// can be used here and why not, allocates, adopts memory that another library
// allocated, and exports.
//
// The package stands alone: it knows nothing of verbs, and needs no vendor's
// toolkit when it is built. Vendors' libraries are loaded when they are first
// asked for.
//
// # Goroutines and closing
//
// Exporters, memory and buffers may be used by several goroutines, but for Close of
// a Memory, which nobody else may use by then. A Buffer has its own rule ([Closing]):
// say what is registered by [Buffer.Hold], and Close keeps the rule. Memory may be
// closed before its buffers.
//
// # What it needs
//
// Linux and cgo, and no header but the C library's. Each exporter needs its driver and
// the right to open its node; [Exporter.Available] tells which, by an error of the class
// ErrNoDevice, ErrPermission or ErrUnsupported. Sizes and offsets are bytes.
package dmabuf

import (
	_ "github.com/peerdirect/peerdirect/internal/needs/cgo"
	_ "github.com/peerdirect/peerdirect/internal/needs/linux"
)
