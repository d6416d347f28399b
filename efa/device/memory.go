package device

import "unsafe"

// Memory is what DMA addresses mean to a device: a guest's memory behind
// vfio-user, or this process's. Its dynamic type must be comparable (a pointer),
// for devices of one fabric may share a Memory, and the data path must hold it
// once only.
//
// Lock takes a shared hold, Unlock ends it. While one is held, the slices that
// Bytes gave stay valid: who unmaps waits until nobody holds the memory. The data
// path takes holds of both sides of a transfer, in one order for the whole
// fabric, and after the devices' own locks. So who unmaps must not call into a
// device while it keeps others from holding the memory.
type Memory interface {
	// Lock takes a shared hold: others may have one, too.
	Lock()
	// Unlock ends it.
	Unlock()
	// Bytes gives the bytes at a DMA address, n of them or as many as are
	// contiguous in this process, and nil where nothing is mapped or n <= 0.
	// It is called with the memory held.
	Bytes(addr uint64, n int) []byte
}

// Place is where a byte lies.
type Place uint8

const (
	PlaceHost        Place = iota // the host's memory, and all that nobody knows better
	PlaceAccelerator              // an accelerator's
	places
)

// Placer is a Memory that tells where bytes lie. Those of another all count as
// the host's.
type Placer interface {
	Memory
	// Place tells where the mapped byte at a DMA address lies, and with it all
	// that Bytes gives there. It is called with the memory held.
	Place(addr uint64) Place
}

// ProcessMemory is the memory of this process, for an embedded device: DMA
// addresses are its own. Nothing can be checked there, so regions should be
// contiguous, and whatever a device was told of, regions and rings alike, must
// stay where it is until it is deregistered or destroyed; options have a field
// Keep that holds on to memory of the Go heap for as long. Goroutine stacks move:
// memory on them cannot be registered.
func ProcessMemory() Memory { return processMemory{} }

type processMemory struct{}

func (processMemory) Lock()   {}
func (processMemory) Unlock() {}

func (processMemory) Bytes(addr uint64, n int) []byte {
	if addr == 0 || n <= 0 {
		return nil
	}
	// The address is loaded as a pointer, not converted: no pointer in this
	// function's reach leads to it, which is what checkptr would look for.
	p := *(*unsafe.Pointer)(unsafe.Pointer(&addr))
	return unsafe.Slice((*byte)(p), n)
}
