#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include "efadv.h"

struct ef_table ef;

void ef_load(void *handle)
{
#define X(name, version, result, args) ef.name = (result(*) args)dlvsym(handle, #name, version);
	EF_CALLS(X)
#undef X
}

/* Only what the queue was made to tell is read: an older library's struct ends
 * before the functions of what it cannot tell. */
static inline void read_wc(struct ibv_cq_ex *cq, void *record, int sgid, int unsolicited)
{
	struct ef_cq *e = ef.efadv_cq_from_ibv_cq_ex(cq);
	union ibv_gid gid;
	uint16_t flags = 0;

	/* The provider reads a send's completion as if it were a receive's. */
	if (!(cq->read_opcode(cq) & IBV_WC_RECV))
		return;
	if (unsolicited && e->wc_is_unsolicited && e->wc_is_unsolicited(e))
		flags = 1;
	memcpy((char *)record + 82, &flags, sizeof(flags));
	if (sgid && e->wc_read_sgid && !e->wc_read_sgid(e, &gid))
		memcpy((char *)record + 88, &gid, sizeof(gid));
}

static void read_sgid(struct ibv_cq_ex *cq, void *record) { read_wc(cq, record, 1, 0); }
static void read_unsolicited(struct ibv_cq_ex *cq, void *record) { read_wc(cq, record, 0, 1); }
static void read_both(struct ibv_cq_ex *cq, void *record) { read_wc(cq, record, 1, 1); }

void *ef_reader(int sgid, int unsolicited)
{
	if (!ef.efadv_cq_from_ibv_cq_ex)
		return NULL;
	return sgid && unsolicited ? read_both : unsolicited ? read_unsolicited : read_sgid;
}

/* Layouts, from rdma-core 65's header. */
#define AT(type, field, offset)                                                \
	_Static_assert(offsetof(struct type, field) == offset, #type "." #field)
#define SIZE(type, bytes) _Static_assert(sizeof(struct type) == bytes, #type)

AT(ef_device_attr, inline_buf_size_ex, 22);
AT(ef_device_attr, max_rdma_size, 28);
SIZE(ef_device_attr, 32);
SIZE(ef_ah_attr, 16);
SIZE(ef_sq_depth_attr, 24);
SIZE(ef_rq_depth_attr, 16);
AT(ef_qp_init_attr, sl, 14);
AT(ef_qp_init_attr, wr_flags, 16);
SIZE(ef_qp_init_attr, 24);
AT(ef_wq_attr, doorbell, 24);
AT(ef_wq_attr, caps, 36);
SIZE(ef_wq_attr, 40);
AT(ef_cq_init_attr, ext_mem_dmabuf.fd, 48);
SIZE(ef_cq_init_attr, 56);
AT(ef_cq_attr, doorbell, 24);
SIZE(ef_cq_attr, 32);
AT(ef_memory_location, type, 24);
SIZE(ef_memory_location, 32);
AT(ef_comp_cntr_init_attr, comp_cntr_ext_mem, 16);
SIZE(ef_comp_cntr_init_attr, 80);
SIZE(ef_mr_attr, 16);
