/* Level Zero as far as this module calls it: our own declarations, those of
 * ze_api.h of Level Zero 1.20.6 (Debian libze-dev 1.20.6-1), with which they
 * were compared. */
#ifndef PEERDIRECT_ZE_SHIM_H
#define PEERDIRECT_ZE_SHIM_H

#include <stddef.h>
#include <stdint.h>

typedef uintptr_t lz_handle;

/* Every struct begins with its type and a chain of extensions. */
struct lz_head {
	uint32_t type;
	void *next;
};

/* ze_device_properties_t */
struct lz_device {
	struct lz_head head;
	uint32_t type, vendor, device, flags, subdevice, clock;
	uint64_t max_alloc;
	uint32_t max_contexts, max_priority, threads, width, units, subslices, slices;
	uint64_t timer;
	uint32_t valid_bits, kernel_valid_bits;
	uint8_t uuid[16];
	char name[256];
};

/* ze_pci_ext_properties_t */
struct lz_pci {
	struct lz_head head;
	uint32_t domain, bus, device, function;
	int32_t generation, width;
	int64_t bandwidth;
};

/* ze_device_external_memory_properties_t */
struct lz_external {
	struct lz_head head;
	uint32_t memory_import, memory_export, image_import, image_export;
};

/* ze_context_desc_t; ze_external_memory_export_desc_t */
struct lz_flags {
	struct lz_head head;
	uint32_t flags;
};

/* ze_device_mem_alloc_desc_t */
struct lz_alloc {
	struct lz_head head;
	uint32_t flags, ordinal;
};

/* ze_memory_allocation_properties_t */
struct lz_memory {
	struct lz_head head;
	uint32_t type;
	uint64_t id, page;
};

/* ze_external_memory_export_fd_t */
struct lz_export {
	struct lz_head head;
	uint32_t flags;
	int fd;
};

/* ze_command_queue_desc_t */
struct lz_queue {
	struct lz_head head;
	uint32_t ordinal, index, flags, mode, priority;
};

enum {
	LZ_DEVICE_PROPERTIES = 0x3,    /* ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES */
	LZ_EXTERNAL_PROPERTIES = 0xc,  /* ZE_STRUCTURE_TYPE_DEVICE_EXTERNAL_MEMORY_PROPERTIES */
	LZ_CONTEXT_DESC = 0xd,         /* ZE_STRUCTURE_TYPE_CONTEXT_DESC */
	LZ_QUEUE_DESC = 0xe,           /* ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC */
	LZ_ALLOC_DESC = 0x15,          /* ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC */
	LZ_MEMORY_PROPERTIES = 0x17,   /* ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES */
	LZ_EXPORT_DESC = 0x18,         /* ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_DESC */
	LZ_EXPORT_FD = 0x1a,           /* ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_FD */
	LZ_PCI_PROPERTIES = 0x10008,   /* ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES */
	LZ_DMABUF = 2,                 /* ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF */
	LZ_GPU_ONLY = 1,               /* ZE_INIT_FLAG_GPU_ONLY */
	LZ_SYNCHRONOUS = 1,            /* ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS */
};

/* lz_load gives the name of the first function missing, or NULL. */
const char *lz_load(void *handle);
int lz_init(void);
int lz_drivers(uint32_t *count, lz_handle *drivers);
int lz_devices(lz_handle driver, uint32_t *count, lz_handle *devices);
int lz_device_name(lz_handle device, char name[256]);
int lz_device_pci(lz_handle device, uint32_t address[4]);
int lz_device_exports(lz_handle device, uint32_t *types);
int lz_context(lz_handle driver, lz_handle *context);
int lz_alloc(lz_handle context, lz_handle device, size_t size, size_t align, uintptr_t *p);
int lz_free(lz_handle context, uintptr_t p);
int lz_range(lz_handle context, uintptr_t p, uintptr_t *base, size_t *size);
/* fd is -1 where the driver left it alone; fd may be NULL. */
int lz_properties(lz_handle context, uintptr_t p, uint32_t *type, lz_handle *device, int *fd);
int lz_copy(lz_handle context, lz_handle device, uintptr_t address, void *host, size_t size, int to_device);

#endif
