// Package dmabuf gives accelerator memory as DMA-BUF descriptors, the form in
// which a NIC's driver registers memory that is not the host's. An [Exporter]
// is one way to such memory: a driver, and a device of it. It says whether it
// can be used here and why not, allocates, adopts memory that another library
// allocated, and exports.
//
// The package stands alone: it knows nothing of verbs, and needs no vendor's
// toolkit when it is built. Vendors' libraries are loaded when they are first
// asked for.
package dmabuf

import (
	_ "github.com/peerdirect/peerdirect/internal/needs/cgo"
	_ "github.com/peerdirect/peerdirect/internal/needs/linux"
)
