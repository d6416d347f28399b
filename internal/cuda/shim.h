/* The CUDA driver interface as far as this module calls it: our own
 * declarations, so that no toolkit is needed to build. Numbers and layouts are
 * those of cuda.h of CUDA 12.4 (Debian nvidia-cuda-dev 12.4.1-2), with which
 * they were compared, and those of copy.c with CUDA 13.0's (testdata/header.c);
 * the ABI has not changed since for any of them. */
#ifndef PEERDIRECT_CUDA_SHIM_H
#define PEERDIRECT_CUDA_SHIM_H

#include <stddef.h>
#include <stdint.h>

/* Contexts, pools and streams are opaque; addresses and handles 64 bits wide. */
typedef uintptr_t cu_opaque;
typedef uint64_t cu_address;

struct cu_location {
	uint32_t type;
	int32_t id;
};

/* CUmemAllocationProp */
struct cu_allocation {
	uint32_t type;
	uint32_t handle_types;
	struct cu_location location;
	void *metadata;
	uint8_t compression;
	uint8_t rdma_capable;
	uint16_t usage;
	uint8_t reserved[4];
};

/* CUmemPoolProps; max_size and usage were reserved before 12.2 and 12.8. */
struct cu_pool {
	uint32_t type;
	uint32_t handle_types;
	struct cu_location location;
	void *metadata;
	size_t max_size;
	uint8_t reserved[56];
};

/* CUmemAccessDesc */
struct cu_access {
	struct cu_location location;
	uint32_t flags;
};

enum {
	CU_PINNED = 1,         /* CU_MEM_ALLOCATION_TYPE_PINNED */
	CU_ON_DEVICE = 1,      /* CU_MEM_LOCATION_TYPE_DEVICE */
	CU_HANDLE_FD = 1,      /* CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR */
	CU_READWRITE = 3,      /* CU_MEM_ACCESS_FLAGS_PROT_READWRITE */
	CU_MINIMUM = 0,        /* CU_MEM_ALLOC_GRANULARITY_MINIMUM */
	CU_RANGE_DMABUF = 1,   /* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */
	CU_MANAGED_GLOBAL = 1, /* CU_MEM_ATTACH_GLOBAL */
};

/* Set in a result where the context could not be made current, so that the
 * call itself was not made. */
#define CU_NOT_CURRENT 0x40000000
/* The loaded library lacks the function. */
#define CU_ABSENT 0x20000000

/* cu_load fills the table from a loader's handle; it gives the name of the
 * first function missing that every driver since 11.0 has, or NULL. */
const char *cu_load(void *handle);
int cu_has_export(void);

int cu_init(void);
const char *cu_name(int result);
int cu_driver_version(int *v);
int cu_device_count(int *n);
int cu_device(int ordinal, int *dev);
int cu_device_name(int dev, char *name, int len);
int cu_device_pci(int dev, char *name, int len);
int cu_device_attribute(int dev, int attribute, int *v);

int cu_primary_retain(int dev, cu_opaque *ctx);
int cu_primary_release(int dev);
int cu_primary_reset(int dev);
int cu_context_create(int dev, cu_opaque *ctx);
int cu_context_destroy(cu_opaque ctx);

/* With each of these ctx is current for the time of the call; 0 leaves the
 * thread's as it is. */
int cu_alloc(cu_opaque ctx, size_t size, cu_address *p);
int cu_free(cu_opaque ctx, cu_address p);
int cu_alloc_managed(cu_opaque ctx, size_t size, cu_address *p);
int cu_alloc_host(cu_opaque ctx, size_t size, cu_address *p);
int cu_free_host(cu_opaque ctx, cu_address p);
int cu_pool_default(int dev, cu_opaque *pool);
int cu_pool_create(int dev, uint32_t handle_types, cu_opaque *pool);
int cu_pool_destroy(cu_opaque pool);
int cu_pool_alloc(cu_opaque ctx, cu_opaque pool, size_t size, cu_address *p);
int cu_pool_free(cu_opaque ctx, cu_address p);
int cu_granularity(int dev, size_t *n);
int cu_reserve(cu_opaque ctx, size_t size, cu_address *p);
int cu_unreserve(cu_opaque ctx, cu_address p, size_t size);
int cu_map(cu_opaque ctx, int dev, cu_address at, size_t size, int rdma);
int cu_unmap(cu_opaque ctx, cu_address at, size_t size);
int cu_export(cu_opaque ctx, cu_address p, size_t size, uint64_t flags, int *fd);
int cu_attribute(cu_opaque ctx, int attribute, cu_address p, uint64_t *v);
int cu_to_host(cu_opaque ctx, void *to, cu_address from, size_t size);
int cu_to_device(cu_opaque ctx, cu_address to, const void *from, size_t size);
int cu_sync_memops(cu_opaque ctx, cu_address p);

/* copy.c. Streams and events are of the context that they were made in. */
int cu_can_access(int dev, int peer, int *can);
int cu_peer_attribute(int from, int to, int attribute, int *v);
int cu_peer_enable(cu_opaque ctx, cu_opaque peer);
int cu_peer_disable(cu_opaque ctx, cu_opaque peer);
int cu_stream_create(cu_opaque ctx, cu_opaque *stream);
int cu_stream_destroy(cu_opaque ctx, cu_opaque stream);
int cu_stream_wait(cu_opaque ctx, cu_opaque stream, cu_opaque event);
/* asks up to so many times; it does not wait otherwise */
int cu_stream_query(cu_opaque ctx, cu_opaque stream, int times, int *done);
int cu_event_create(cu_opaque ctx, cu_opaque *event);
int cu_event_destroy(cu_opaque ctx, cu_opaque event);
int cu_event_record(cu_opaque ctx, cu_opaque event, cu_opaque stream);
int cu_fill(cu_opaque ctx, cu_address p, unsigned char v, size_t size, cu_opaque stream);
int cu_to_peer(cu_opaque ctx, cu_address to, cu_opaque to_ctx, cu_address from, cu_opaque from_ctx, size_t size, cu_opaque stream);
int cu_to_host_async(cu_opaque ctx, void *to, cu_address from, size_t size, cu_opaque stream);
int cu_to_device_async(cu_opaque ctx, cu_address to, const void *from, size_t size, cu_opaque stream);
int cu_pinned(cu_opaque ctx, size_t size, void **p);
int cu_unpinned(cu_opaque ctx, void *p);
int cu_pin(cu_opaque ctx, void *p, size_t size);
int cu_unpin(cu_opaque ctx, void *p);

#endif
