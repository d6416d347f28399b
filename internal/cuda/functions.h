/* The table of the library's functions, for this package's C files. */
#ifndef PEERDIRECT_CUDA_FUNCTIONS_H
#define PEERDIRECT_CUDA_FUNCTIONS_H

#include "shim.h"

/* The functions by the names that the library exports: a suffix is the version
 * of the ABI, which cuda.h hides behind macros. Those that end in _ptsz, which it
 * chooses on request, differ in what stream 0 means, and only there. */
#define REQUIRED(X)                                                            \
	X(cuInit, (unsigned int))                                              \
	X(cuGetErrorName, (int, const char **))                                \
	X(cuDriverGetVersion, (int *))                                         \
	X(cuDeviceGetCount, (int *))                                           \
	X(cuDeviceGet, (int *, int))                                           \
	X(cuDeviceGetName, (char *, int, int))                                 \
	X(cuDeviceGetPCIBusId, (char *, int, int))                             \
	X(cuDeviceGetAttribute, (int *, int, int))                             \
	X(cuDevicePrimaryCtxRetain, (cu_opaque *, int))                        \
	X(cuDevicePrimaryCtxRelease_v2, (int))                                 \
	X(cuDevicePrimaryCtxReset_v2, (int))                                   \
	X(cuCtxCreate_v2, (cu_opaque *, unsigned int, int))                    \
	X(cuCtxDestroy_v2, (cu_opaque))                                        \
	X(cuCtxPushCurrent_v2, (cu_opaque))                                    \
	X(cuCtxPopCurrent_v2, (cu_opaque *))                                   \
	X(cuStreamSynchronize, (cu_opaque))                                    \
	X(cuMemAlloc_v2, (cu_address *, size_t))                               \
	X(cuMemFree_v2, (cu_address))                                          \
	X(cuMemAllocManaged, (cu_address *, size_t, unsigned int))             \
	X(cuMemAllocHost_v2, (void **, size_t))                                \
	X(cuMemFreeHost, (void *))                                             \
	X(cuPointerGetAttribute, (void *, int, cu_address))                    \
	X(cuPointerSetAttribute, (const void *, int, cu_address))              \
	X(cuMemcpyDtoH_v2, (void *, cu_address, size_t))                       \
	X(cuMemcpyHtoD_v2, (cu_address, const void *, size_t))                 \
	X(cuMemGetAllocationGranularity, (size_t *, const struct cu_allocation *, int)) \
	X(cuMemCreate, (uint64_t *, size_t, const struct cu_allocation *, uint64_t)) \
	X(cuMemRelease, (uint64_t))                                            \
	X(cuMemAddressReserve, (cu_address *, size_t, size_t, cu_address, uint64_t)) \
	X(cuMemAddressFree, (cu_address, size_t))                              \
	X(cuMemMap, (cu_address, size_t, size_t, uint64_t, uint64_t))          \
	X(cuMemUnmap, (cu_address, size_t))                                    \
	X(cuMemSetAccess, (cu_address, size_t, const struct cu_access *, size_t)) \
	X(cuDeviceCanAccessPeer, (int *, int, int))                            \
	X(cuDeviceGetP2PAttribute, (int *, int, int, int))                     \
	X(cuCtxEnablePeerAccess, (cu_opaque, unsigned int))                    \
	X(cuCtxDisablePeerAccess, (cu_opaque))                                 \
	X(cuStreamCreate, (cu_opaque *, unsigned int))                         \
	X(cuStreamDestroy_v2, (cu_opaque))                                     \
	X(cuStreamQuery, (cu_opaque))                                          \
	X(cuStreamWaitEvent, (cu_opaque, cu_opaque, unsigned int))             \
	X(cuEventCreate, (cu_opaque *, unsigned int))                          \
	X(cuEventDestroy_v2, (cu_opaque))                                      \
	X(cuEventRecord, (cu_opaque, cu_opaque))                               \
	X(cuMemsetD8Async, (cu_address, unsigned char, size_t, cu_opaque))     \
	X(cuMemcpyPeerAsync, (cu_address, cu_opaque, cu_address, cu_opaque, size_t, cu_opaque)) \
	X(cuMemcpyDtoHAsync_v2, (void *, cu_address, size_t, cu_opaque))       \
	X(cuMemcpyHtoDAsync_v2, (cu_address, const void *, size_t, cu_opaque)) \
	X(cuMemHostAlloc, (void **, size_t, unsigned int))                     \
	X(cuMemHostRegister_v2, (void *, size_t, unsigned int))                \
	X(cuMemHostUnregister, (void *))

/* Pools came with 11.2, dma-bufs with 11.7. */
#define OPTIONAL(X)                                                            \
	X(cuDeviceGetDefaultMemPool, (cu_opaque *, int))                       \
	X(cuMemPoolCreate, (cu_opaque *, const struct cu_pool *))              \
	X(cuMemPoolDestroy, (cu_opaque))                                       \
	X(cuMemAllocFromPoolAsync, (cu_address *, size_t, cu_opaque, cu_opaque)) \
	X(cuMemFreeAsync, (cu_address, cu_opaque))                             \
	X(cuMemGetHandleForAddressRange, (void *, cu_address, size_t, int, uint64_t))

struct cu_functions {
#define X(fn, args) int(*fn) args;
	REQUIRED(X) OPTIONAL(X)
#undef X
};

extern struct cu_functions cu;

/* A goroutine keeps its thread for the time of one call into C, so pushing the
 * context, calling and popping it here needs no thread locked in Go, and leaves
 * the thread as it was found. */
#define WITHIN(ctx, call)                                                      \
	do {                                                                   \
		int rc_;                                                       \
		cu_opaque old_;                                                \
		if (!(ctx))                                                    \
			return (call);                                         \
		rc_ = cu.cuCtxPushCurrent_v2(ctx);                             \
		if (rc_)                                                       \
			return rc_ | CU_NOT_CURRENT;                           \
		rc_ = (call);                                                  \
		cu.cuCtxPopCurrent_v2(&old_);                                  \
		return rc_;                                                    \
	} while (0)

#define NEEDS(fn)                                                              \
	do {                                                                   \
		if (!cu.fn)                                                    \
			return CU_ABSENT;                                      \
	} while (0)

#endif
