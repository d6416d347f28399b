// Package mrcache keeps memory registrations for the next transfer: the first
// use of a range pays for its registration, later ones find it. It knows nothing
// of NICs: a [Registrar] registers, one for each rail, whether that stands on
// verbs, on the kernel's EFA driver or on a device in this process.
//
//	c, err := mrcache.New(mrcache.Options{Rails: []mrcache.Rail{{Name: "efa_0", Registrar: nic, Budget: mrcache.Unlimited}}})
//	ref, err := c.Get(0, mrcache.Range{Alloc: mrcache.Allocation{Space: mrcache.DMABuf, ID: inode}, Addr: off, Length: n}, access)
//	defer ref.Release()
//	mr := ref.Registration().(*efa.MR) // and ref.Offset() in it
//
// # What a hit is
//
// A request hits where it lies inside a registered range of the same allocation
// and asks for no right that the range lacks. Allocations are told apart by
// [Allocation]: the inode of a dma-buf, CUDA's buffer ID, a number of the
// caller's for host memory. An address alone names no allocation: after a free
// it may be another's.
//
// A hit takes no lock, allocates nothing and calls nothing, unless the cache was
// told to ask for the identity of such memory each time ([Options].Identify).
// Rails share nothing on the way.
//
// # What is never given
//
// A registration of memory that has been freed or replaced since. Host memory
// whose end nobody tells is registered for each use and not kept: either the
// kernel tells (userfaultfd, see [Options].Watch), or the caller does, by naming
// its allocations or by [Options].Explicit together with [Cache.Invalidate].
//
// # What the far side can reach
//
// A registration may cover more than was asked for: whole pages of host memory,
// a whole allocation, neighbours of the same allocation that had the same
// rights. Its key is good for all of that. [Policy] turns each of these off.
//
// # Closing
//
// References are released first, then the cache is closed, then the NICs: Cache.Close
// waits for references until its context ends, and tells who holds them. It needs
// Linux, no cgo and no privilege, but that Options.Watch needs userfaultfd, which a
// container may lack (see [Cache.Watching]).
package mrcache

import _ "github.com/peerdirect/peerdirect/internal/needs/linux"
