package cuda

/*
#include "shim.h"
*/
import "C"

import "unsafe"

// Alloc gives size bytes on the context's device by cuMemAlloc. Small ones
// share a block of 2 MiB.
func (c Context) Alloc(size uint64) (uint64, error) {
	var p C.cu_address
	err := check("cuMemAlloc", C.cu_alloc(C.cu_opaque(c), C.size_t(size), &p))
	return uint64(p), err
}

// Free frees what Alloc or AllocManaged gave.
func (c Context) Free(p uint64) error {
	return check("cuMemFree", C.cu_free(C.cu_opaque(c), C.cu_address(p)))
}

// AllocManaged gives memory that moves between host and device.
func (c Context) AllocManaged(size uint64) (uint64, error) {
	var p C.cu_address
	err := check("cuMemAllocManaged", C.cu_alloc_managed(C.cu_opaque(c), C.size_t(size), &p))
	return uint64(p), err
}

// AllocHost gives page-locked memory of the host.
func (c Context) AllocHost(size uint64) (uint64, error) {
	var p C.cu_address
	err := check("cuMemAllocHost", C.cu_alloc_host(C.cu_opaque(c), C.size_t(size), &p))
	return uint64(p), err
}

// FreeHost frees what AllocHost gave.
func (c Context) FreeHost(p uint64) error {
	return check("cuMemFreeHost", C.cu_free_host(C.cu_opaque(c), C.cu_address(p)))
}

// Pool is the handle of a pool of stream-ordered memory.
type Pool uintptr

// DefaultPool is the pool that cuMemAllocAsync takes from.
func (d Device) DefaultPool() (Pool, error) {
	var p C.cu_opaque
	err := check("cuDeviceGetDefaultMemPool", C.cu_pool_default(C.int(d), &p))
	return Pool(p), err
}

// CreatePool makes a pool on the device. Shareable memory can be exported as a
// descriptor of CUDA's own kind, which is no dma-buf.
func (d Device) CreatePool(shareable bool) (Pool, error) {
	var p C.cu_opaque
	var types C.uint32_t
	if shareable {
		types = C.CU_HANDLE_FD
	}
	err := check("cuMemPoolCreate", C.cu_pool_create(C.int(d), types, &p))
	return Pool(p), err
}

// Destroy ends a pool of CreatePool.
func (p Pool) Destroy() error {
	return check("cuMemPoolDestroy", C.cu_pool_destroy(C.cu_opaque(p)))
}

// AllocFromPool gives memory of a pool, and waits until it is there.
func (c Context) AllocFromPool(pool Pool, size uint64) (uint64, error) {
	var p C.cu_address
	err := check("cuMemAllocFromPoolAsync", C.cu_pool_alloc(C.cu_opaque(c), C.cu_opaque(pool), C.size_t(size), &p))
	return uint64(p), err
}

// FreeAsync gives memory back to its pool, and waits until that is done.
func (c Context) FreeAsync(p uint64) error {
	return check("cuMemFreeAsync", C.cu_pool_free(C.cu_opaque(c), C.cu_address(p)))
}

// Granularity is what sizes of physical memory for Map must be a multiple of.
func (d Device) Granularity() (uint64, error) {
	var n C.size_t
	err := check("cuMemGetAllocationGranularity", C.cu_granularity(C.int(d), &n))
	return uint64(n), err
}

// Reserve sets addresses aside, without memory behind them.
func (c Context) Reserve(size uint64) (uint64, error) {
	var p C.cu_address
	err := check("cuMemAddressReserve", C.cu_reserve(C.cu_opaque(c), C.size_t(size), &p))
	return uint64(p), err
}

// Unreserve gives addresses of Reserve back; they must not be mapped any more.
func (c Context) Unreserve(p, size uint64) error {
	return check("cuMemAddressFree", C.cu_unreserve(C.cu_opaque(c), C.cu_address(p), C.size_t(size)))
}

// Map puts one piece of new physical memory at reserved addresses, for reading
// and writing by the device, and for RDMA where that is asked for.
func (c Context) Map(d Device, at, size uint64, rdma bool) error {
	flag := C.int(0)
	if rdma {
		flag = 1
	}
	return check("cuMemCreate and cuMemMap", C.cu_map(C.cu_opaque(c), C.int(d), C.cu_address(at), C.size_t(size), flag))
}

// Unmap takes it away, and with it the memory.
func (c Context) Unmap(at, size uint64) error {
	return check("cuMemUnmap", C.cu_unmap(C.cu_opaque(c), C.cu_address(at), C.size_t(size)))
}

// MapPCIe is CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE (CUDA 12.8): the
// importer gets addresses on PCIe on machines that connect GPU and CPU
// otherwise too.
const MapPCIe = 1

// Export gives a dma-buf of size bytes from p on, both multiples of the host's
// page.
func (c Context) Export(p, size, flags uint64) (fd int, err error) {
	var n C.int
	err = check("cuMemGetHandleForAddressRange",
		C.cu_export(C.cu_opaque(c), C.cu_address(p), C.size_t(size), C.uint64_t(flags), &n))
	return int(n), err
}

// PointerAttribute is a number of CUpointer_attribute.
type PointerAttribute int

const (
	PointerContext       PointerAttribute = 1
	PointerMemoryType    PointerAttribute = 2
	PointerBufferID      PointerAttribute = 7
	PointerIsManaged     PointerAttribute = 8
	PointerDevice        PointerAttribute = 9
	PointerLegacyIPC     PointerAttribute = 10
	PointerRangeStart    PointerAttribute = 11
	PointerRangeSize     PointerAttribute = 12
	PointerMapped        PointerAttribute = 13
	PointerHandleTypes   PointerAttribute = 14
	PointerRDMACapable   PointerAttribute = 15
	PointerPool          PointerAttribute = 17
	PointerMappingSize   PointerAttribute = 18
	PointerMappingBase   PointerAttribute = 19
	PointerMemoryBlockID PointerAttribute = 20
)

// Memory types, CUmemorytype.
const (
	TypeHost   = 1
	TypeDevice = 2
)

// Attribute reads what the driver knows of an address. For an address that it
// does not know the error is CUDA_ERROR_INVALID_VALUE.
func (c Context) Attribute(a PointerAttribute, p uint64) (uint64, error) {
	var v C.uint64_t
	err := check("cuPointerGetAttribute", C.cu_attribute(C.cu_opaque(c), C.int(a), C.cu_address(p), &v))
	return uint64(v), err
}

// SyncMemops makes CUDA's synchronous copies to and from the allocation wait
// until they are done, as NICs that reach it without CUDA's knowledge need it.
func (c Context) SyncMemops(p uint64) error {
	return check("cuPointerSetAttribute", C.cu_sync_memops(C.cu_opaque(c), C.cu_address(p)))
}

// CopyToHost copies device memory from p on into b.
func (c Context) CopyToHost(b []byte, p uint64) error {
	if len(b) == 0 {
		return nil
	}
	return check("cuMemcpyDtoH", C.cu_to_host(C.cu_opaque(c), unsafe.Pointer(&b[0]), C.cu_address(p), C.size_t(len(b))))
}

// CopyToDevice copies b to p, and waits until it is there.
func (c Context) CopyToDevice(p uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return check("cuMemcpyHtoD", C.cu_to_device(C.cu_opaque(c), C.cu_address(p), unsafe.Pointer(&b[0]), C.size_t(len(b))))
}
