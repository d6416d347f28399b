#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <string.h>
#include "functions.h"

_Static_assert(sizeof(struct cu_allocation) == 32, "CUmemAllocationProp");
_Static_assert(offsetof(struct cu_allocation, rdma_capable) == 25, "gpuDirectRDMACapable");
_Static_assert(sizeof(struct cu_pool) == 88, "CUmemPoolProps");
_Static_assert(sizeof(struct cu_access) == 12, "CUmemAccessDesc");

struct cu_functions cu;

const char *cu_load(void *handle)
{
#define X(fn, args)                                                            \
	*(void **)&cu.fn = dlsym(handle, #fn);                                 \
	if (!cu.fn)                                                            \
		return #fn;
	REQUIRED(X)
#undef X
#define X(fn, args) *(void **)&cu.fn = dlsym(handle, #fn);
	OPTIONAL(X)
#undef X
	return NULL;
}

int cu_has_export(void) { return cu.cuMemGetHandleForAddressRange != NULL; }

int cu_init(void) { return cu.cuInit(0); }

const char *cu_name(int result)
{
	const char *name = NULL;

	if (!cu.cuGetErrorName || cu.cuGetErrorName(result, &name))
		return NULL;
	return name;
}

int cu_driver_version(int *v) { return cu.cuDriverGetVersion(v); }
int cu_device_count(int *n) { return cu.cuDeviceGetCount(n); }
int cu_device(int ordinal, int *dev) { return cu.cuDeviceGet(dev, ordinal); }
int cu_device_name(int dev, char *name, int len) { return cu.cuDeviceGetName(name, len, dev); }
int cu_device_pci(int dev, char *name, int len) { return cu.cuDeviceGetPCIBusId(name, len, dev); }
int cu_device_attribute(int dev, int attribute, int *v) { return cu.cuDeviceGetAttribute(v, attribute, dev); }

int cu_primary_retain(int dev, cu_opaque *ctx) { return cu.cuDevicePrimaryCtxRetain(ctx, dev); }
int cu_primary_release(int dev) { return cu.cuDevicePrimaryCtxRelease_v2(dev); }
int cu_primary_reset(int dev) { return cu.cuDevicePrimaryCtxReset_v2(dev); }

int cu_context_create(int dev, cu_opaque *ctx)
{
	cu_opaque old;
	int rc = cu.cuCtxCreate_v2(ctx, 0, dev);

	/* It is current now, and would stay so on a thread of Go's. */
	if (!rc)
		cu.cuCtxPopCurrent_v2(&old);
	return rc;
}

int cu_context_destroy(cu_opaque ctx) { return cu.cuCtxDestroy_v2(ctx); }

int cu_alloc(cu_opaque ctx, size_t size, cu_address *p) { WITHIN(ctx, cu.cuMemAlloc_v2(p, size)); }
int cu_free(cu_opaque ctx, cu_address p) { WITHIN(ctx, cu.cuMemFree_v2(p)); }
int cu_alloc_managed(cu_opaque ctx, size_t size, cu_address *p) { WITHIN(ctx, cu.cuMemAllocManaged(p, size, CU_MANAGED_GLOBAL)); }
int cu_free_host(cu_opaque ctx, cu_address p) { WITHIN(ctx, cu.cuMemFreeHost((void *)(uintptr_t)p)); }

int cu_alloc_host(cu_opaque ctx, size_t size, cu_address *p)
{
	void *host = NULL;

	*p = 0;
	WITHIN(ctx, cu.cuMemAllocHost_v2(&host, size) ?: (*p = (uintptr_t)host, 0));
}

int cu_pool_default(int dev, cu_opaque *pool)
{
	NEEDS(cuDeviceGetDefaultMemPool);
	return cu.cuDeviceGetDefaultMemPool(pool, dev);
}

int cu_pool_create(int dev, uint32_t handle_types, cu_opaque *pool)
{
	struct cu_pool props = {
		.type = CU_PINNED,
		.handle_types = handle_types,
		.location = {.type = CU_ON_DEVICE, .id = dev},
	};

	NEEDS(cuMemPoolCreate);
	return cu.cuMemPoolCreate(pool, &props);
}

int cu_pool_destroy(cu_opaque pool)
{
	NEEDS(cuMemPoolDestroy);
	return cu.cuMemPoolDestroy(pool);
}

/* The order is that of the default stream; the memory is there, and gone, when
 * the call is back. */
int cu_pool_alloc(cu_opaque ctx, cu_opaque pool, size_t size, cu_address *p)
{
	NEEDS(cuMemAllocFromPoolAsync);
	WITHIN(ctx, cu.cuMemAllocFromPoolAsync(p, size, pool, 0) ?: cu.cuStreamSynchronize(0));
}

int cu_pool_free(cu_opaque ctx, cu_address p)
{
	NEEDS(cuMemFreeAsync);
	WITHIN(ctx, cu.cuMemFreeAsync(p, 0) ?: cu.cuStreamSynchronize(0));
}

static struct cu_allocation physical(int dev, int rdma)
{
	return (struct cu_allocation){
		.type = CU_PINNED,
		.handle_types = CU_HANDLE_FD,
		.location = {.type = CU_ON_DEVICE, .id = dev},
		.rdma_capable = rdma,
	};
}

int cu_granularity(int dev, size_t *n)
{
	struct cu_allocation prop = physical(dev, 1);

	return cu.cuMemGetAllocationGranularity(n, &prop, CU_MINIMUM);
}

int cu_reserve(cu_opaque ctx, size_t size, cu_address *p) { WITHIN(ctx, cu.cuMemAddressReserve(p, size, 0, 0, 0)); }
int cu_unreserve(cu_opaque ctx, cu_address p, size_t size) { WITHIN(ctx, cu.cuMemAddressFree(p, size)); }

static int map(int dev, cu_address at, size_t size, int rdma)
{
	struct cu_allocation prop = physical(dev, rdma);
	struct cu_access access = {.location = prop.location, .flags = CU_READWRITE};
	uint64_t handle;
	int rc = cu.cuMemCreate(&handle, size, &prop, 0);

	if (rc)
		return rc;
	rc = cu.cuMemMap(at, size, 0, handle, 0);
	/* The mapping holds the memory from here on. */
	cu.cuMemRelease(handle);
	if (rc)
		return rc;
	rc = cu.cuMemSetAccess(at, size, &access, 1);
	if (rc)
		cu.cuMemUnmap(at, size);
	return rc;
}

int cu_map(cu_opaque ctx, int dev, cu_address at, size_t size, int rdma) { WITHIN(ctx, map(dev, at, size, rdma)); }
int cu_unmap(cu_opaque ctx, cu_address at, size_t size) { WITHIN(ctx, cu.cuMemUnmap(at, size)); }

int cu_export(cu_opaque ctx, cu_address p, size_t size, uint64_t flags, int *fd)
{
	NEEDS(cuMemGetHandleForAddressRange);
	*fd = -1;
	WITHIN(ctx, cu.cuMemGetHandleForAddressRange(fd, p, size, CU_RANGE_DMABUF, flags));
}

/* Attributes are 4 or 8 bytes wide; on a little-endian machine the rest of the
 * word stays zero. */
int cu_attribute(cu_opaque ctx, int attribute, cu_address p, uint64_t *v)
{
	*v = 0;
	WITHIN(ctx, cu.cuPointerGetAttribute(v, attribute, p));
}

int cu_to_host(cu_opaque ctx, void *to, cu_address from, size_t size) { WITHIN(ctx, cu.cuMemcpyDtoH_v2(to, from, size)); }

/* The copy from pageable memory is back once it is staged: a NIC that reads
 * next must find it in place. */
int cu_to_device(cu_opaque ctx, cu_address to, const void *from, size_t size)
{
	WITHIN(ctx, cu.cuMemcpyHtoD_v2(to, from, size) ?: cu.cuStreamSynchronize(0));
}

int cu_sync_memops(cu_opaque ctx, cu_address p)
{
	unsigned int on = 1;

	WITHIN(ctx, cu.cuPointerSetAttribute(&on, 6 /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */, p));
}
