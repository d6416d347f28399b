#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <string.h>
#include "shim.h"

_Static_assert(sizeof(struct lz_head) == 16, "head");
_Static_assert(sizeof(struct lz_device) == 368 && offsetof(struct lz_device, name) == 112, "ze_device_properties_t");
_Static_assert(sizeof(struct lz_memory) == 40, "ze_memory_allocation_properties_t");
_Static_assert(sizeof(struct lz_export) == 24, "ze_external_memory_export_fd_t");

#define FUNCTIONS(X)                                                           \
	X(zeInit, (uint32_t))                                                  \
	X(zeDriverGet, (uint32_t *, lz_handle *))                              \
	X(zeDeviceGet, (lz_handle, uint32_t *, lz_handle *))                   \
	X(zeDeviceGetProperties, (lz_handle, struct lz_device *))              \
	X(zeDevicePciGetPropertiesExt, (lz_handle, struct lz_pci *))           \
	X(zeDeviceGetExternalMemoryProperties, (lz_handle, struct lz_external *)) \
	X(zeContextCreate, (lz_handle, const struct lz_flags *, lz_handle *))  \
	X(zeMemAllocDevice, (lz_handle, const struct lz_alloc *, size_t, size_t, lz_handle, void **)) \
	X(zeMemFree, (lz_handle, void *))                                      \
	X(zeMemGetAddressRange, (lz_handle, const void *, void **, size_t *))  \
	X(zeMemGetAllocProperties, (lz_handle, const void *, struct lz_memory *, lz_handle *)) \
	X(zeCommandListCreateImmediate, (lz_handle, lz_handle, const struct lz_queue *, lz_handle *)) \
	X(zeCommandListAppendMemoryCopy, (lz_handle, void *, const void *, size_t, lz_handle, uint32_t, lz_handle *)) \
	X(zeCommandListDestroy, (lz_handle))

static struct {
#define X(fn, args) int(*fn) args;
	FUNCTIONS(X)
#undef X
} ze;

const char *lz_load(void *handle)
{
#define X(fn, args)                                                            \
	*(void **)&ze.fn = dlsym(handle, #fn);                                 \
	if (!ze.fn)                                                            \
		return #fn;
	FUNCTIONS(X)
#undef X
	return NULL;
}

int lz_init(void) { return ze.zeInit(LZ_GPU_ONLY); }
int lz_drivers(uint32_t *count, lz_handle *drivers) { return ze.zeDriverGet(count, drivers); }
int lz_devices(lz_handle driver, uint32_t *count, lz_handle *devices) { return ze.zeDeviceGet(driver, count, devices); }

int lz_device_name(lz_handle device, char name[256])
{
	struct lz_device p = {.head.type = LZ_DEVICE_PROPERTIES};
	int rc = ze.zeDeviceGetProperties(device, &p);

	memcpy(name, p.name, sizeof(p.name));
	name[255] = 0;
	return rc;
}

int lz_device_pci(lz_handle device, uint32_t address[4])
{
	struct lz_pci p = {.head.type = LZ_PCI_PROPERTIES};
	int rc = ze.zeDevicePciGetPropertiesExt(device, &p);

	address[0] = p.domain;
	address[1] = p.bus;
	address[2] = p.device;
	address[3] = p.function;
	return rc;
}

int lz_device_exports(lz_handle device, uint32_t *types)
{
	struct lz_external p = {.head.type = LZ_EXTERNAL_PROPERTIES};
	int rc = ze.zeDeviceGetExternalMemoryProperties(device, &p);

	*types = p.memory_export;
	return rc;
}

int lz_context(lz_handle driver, lz_handle *context)
{
	struct lz_flags desc = {.head.type = LZ_CONTEXT_DESC};

	return ze.zeContextCreate(driver, &desc, context);
}

int lz_alloc(lz_handle context, lz_handle device, size_t size, size_t align, uintptr_t *p)
{
	struct lz_flags export = {.head.type = LZ_EXPORT_DESC, .flags = LZ_DMABUF};
	struct lz_alloc desc = {.head = {.type = LZ_ALLOC_DESC, .next = &export}};
	void *at = NULL;
	int rc = ze.zeMemAllocDevice(context, &desc, size, align, device, &at);

	*p = (uintptr_t)at;
	return rc;
}

int lz_free(lz_handle context, uintptr_t p) { return ze.zeMemFree(context, (void *)p); }

int lz_range(lz_handle context, uintptr_t p, uintptr_t *base, size_t *size)
{
	void *at = NULL;
	int rc = ze.zeMemGetAddressRange(context, (const void *)p, &at, size);

	*base = (uintptr_t)at;
	return rc;
}

int lz_properties(lz_handle context, uintptr_t p, uint32_t *type, lz_handle *device, int *fd)
{
	struct lz_export export = {.head.type = LZ_EXPORT_FD, .flags = LZ_DMABUF, .fd = -1};
	struct lz_memory memory = {.head = {.type = LZ_MEMORY_PROPERTIES, .next = fd ? &export : NULL}};
	int rc;

	*device = 0;
	rc = ze.zeMemGetAllocProperties(context, (const void *)p, &memory, device);
	*type = memory.type;
	if (fd)
		*fd = export.fd;
	return rc;
}

int lz_copy(lz_handle context, lz_handle device, uintptr_t address, void *host, size_t size, int to_device)
{
	struct lz_queue desc = {.head.type = LZ_QUEUE_DESC, .mode = LZ_SYNCHRONOUS};
	lz_handle list;
	int rc = ze.zeCommandListCreateImmediate(context, device, &desc, &list), end;

	if (rc)
		return rc;
	rc = ze.zeCommandListAppendMemoryCopy(list, to_device ? (void *)address : host,
					      to_device ? host : (void *)address, size, 0, 0, NULL);
	end = ze.zeCommandListDestroy(list);
	return rc ? rc : end;
}
