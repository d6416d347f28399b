/* The ROCm runtime as far as this module calls it: our own declarations, those
 * of hsa.h and hsa_ext_amd.h of ROCr 6.1.2 (Debian libhsa-runtime-dev 6.1.2-3),
 * with which they were compared. */
#ifndef PEERDIRECT_HSA_SHIM_H
#define PEERDIRECT_HSA_SHIM_H

#include <stddef.h>
#include <stdint.h>

/* hsa_amd_pointer_info_t */
struct hs_pointer {
	uint32_t size;
	uint32_t type;
	uintptr_t agent_base;
	uintptr_t host_base;
	size_t bytes;
	void *user_data;
	uint64_t owner;
	uint32_t global_flags;
};

enum {
	HS_AGENT_BDF = 0xA006,    /* HSA_AMD_AGENT_INFO_BDFID */
	HS_AGENT_DOMAIN = 0xA00F, /* HSA_AMD_AGENT_INFO_DOMAIN */
};

/* hs_load gives the name of the first function missing, or NULL. */
const char *hs_load(void *handle);
const char *hs_text(int status);
int hs_init(void);
int hs_pointer_info(uintptr_t p, struct hs_pointer *info);
int hs_agent_address(uint64_t agent, uint32_t *domain, uint32_t *bdf);
int hs_export(uintptr_t p, size_t size, int *fd, uint64_t *offset);
int hs_to_host(void *to, uintptr_t from, size_t size);
int hs_to_device(uintptr_t to, const void *from, size_t size);

#endif
