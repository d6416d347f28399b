// Package mmio is the few stores and fences that driving a NIC's queues takes
// and that the Go language does not promise: stores of a known width in a known
// order, and barriers towards a device. sync/atomic is no substitute: its
// stores compile to locked exchanges, which device memory does not want, and
// copy may use any width in any order.
//
// They are apart from package efa because a package with cgo has no Go
// assembly.
//
// Source of the rules: util/mmio.h and util/udma_barrier.h of rdma-core 65.
package mmio

import "unsafe"

// Block is the unit of Post and Copy, in bytes: one write-combining buffer.
const Block = 64

// Post copies blocks of 64 bytes to write-combining memory in ascending stores
// of 8 bytes (amd64) or pairs of them (arm64), flushes them towards the device,
// and then stores value to the doorbell, if that is not nil. A fence in front
// keeps the copy behind earlier stores to the device. The memory is 8-byte
// aligned on both sides.
//
//go:noescape
func Post(dst, src unsafe.Pointer, blocks int, doorbell unsafe.Pointer, value uint32)

// Copy is Post's copy alone, with the fence in front: for the first part of a
// batch that wraps around its ring.
//
//go:noescape
func Copy(dst, src unsafe.Pointer, blocks int)

// Ring makes earlier stores to ordinary memory visible to the device and then
// stores value to the doorbell.
//
//go:noescape
func Ring(doorbell unsafe.Pointer, value uint32)
