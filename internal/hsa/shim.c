#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include "shim.h"

_Static_assert(sizeof(struct hs_pointer) == 56, "hsa_amd_pointer_info_t");
_Static_assert(offsetof(struct hs_pointer, owner) == 40, "agentOwner");

#define FUNCTIONS(X)                                                           \
	X(hsa_init, (void))                                                    \
	X(hsa_status_string, (int, const char **))                             \
	X(hsa_agent_get_info, (uint64_t, int, void *))                         \
	X(hsa_memory_copy, (void *, const void *, size_t))                     \
	X(hsa_amd_pointer_info, (const void *, struct hs_pointer *, void *(*)(size_t), uint32_t *, uint64_t **)) \
	X(hsa_amd_portable_export_dmabuf, (const void *, size_t, int *, uint64_t *))

static struct {
#define X(fn, args) int(*fn) args;
	FUNCTIONS(X)
#undef X
} hs;

const char *hs_load(void *handle)
{
#define X(fn, args)                                                            \
	*(void **)&hs.fn = dlsym(handle, #fn);                                 \
	if (!hs.fn)                                                            \
		return #fn;
	FUNCTIONS(X)
#undef X
	return NULL;
}

const char *hs_text(int status)
{
	const char *text = NULL;

	if (!hs.hsa_status_string || hs.hsa_status_string(status, &text))
		return NULL;
	return text;
}

int hs_init(void) { return hs.hsa_init(); }

int hs_pointer_info(uintptr_t p, struct hs_pointer *info)
{
	info->size = sizeof(*info);
	return hs.hsa_amd_pointer_info((const void *)p, info, NULL, NULL, NULL);
}

int hs_agent_address(uint64_t agent, uint32_t *domain, uint32_t *bdf)
{
	int rc = hs.hsa_agent_get_info(agent, HS_AGENT_BDF, bdf);

	return rc ? rc : hs.hsa_agent_get_info(agent, HS_AGENT_DOMAIN, domain);
}

int hs_export(uintptr_t p, size_t size, int *fd, uint64_t *offset)
{
	*fd = -1;
	*offset = 0;
	return hs.hsa_amd_portable_export_dmabuf((const void *)p, size, fd, offset);
}

int hs_to_host(void *to, uintptr_t from, size_t size) { return hs.hsa_memory_copy(to, (const void *)from, size); }
int hs_to_device(uintptr_t to, const void *from, size_t size) { return hs.hsa_memory_copy((void *)to, from, size); }
