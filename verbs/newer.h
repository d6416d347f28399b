/* What came to libibverbs after version 44, the oldest header this package is
 * built with. The names are this package's own, so that any later header can
 * be included beside them; the layouts are those of rdma-core 65's verbs.h.
 * Every function is looked up when the library is loaded and may be absent. */
#ifndef PEERDIRECT_VERBS_NEWER_H
#define PEERDIRECT_VERBS_NEWER_H

struct vb_dmah; /* struct ibv_dmah, opaque here */
struct vb_buf;  /* struct ibv_buf, opaque everywhere */

struct vb_dmah_attr {
	uint32_t comp_mask; /* 1 cpu_id, 2 ph, 4 tph_mem_type */
	uint32_t cpu_id;
	uint8_t ph;
	uint8_t tph_mem_type;
};

struct vb_mr_attr {
	size_t length;
	int access;
	uint64_t comp_mask; /* 1 iova, 2 addr, 4 fd, 8 fd_offset, 16 dmah, 32 buf */
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	struct vb_dmah *dmah;
	struct vb_buf *buf;
};

struct vb_comp_cntr_caps {
	uint64_t max_value;
	uint32_t max_counters;
	uint32_t supported_qp_attach_ops;
};

struct vb_comp_cntr {
	struct ibv_context *context;
	uint32_t handle;
};

struct vb_comp_cntr_attr {
	uint32_t comp_mask;
	uint32_t type; /* 0 work requests, 1 bytes */
	uint32_t flags;
};

struct vb_attach_comp_cntr {
	uint32_t comp_mask;
	uint32_t op_mask;
};

/* X(name, result, arguments), in the order of their symbol versions: 1.15, 1.16, 1.17 and 1.18. rdma-core 56 ends at 1.14. */
#define VB_NEWER(X)                                                                                  \
	X(ibv_alloc_dmah, struct vb_dmah *, (struct ibv_context *, struct vb_dmah_attr *))           \
	X(ibv_dealloc_dmah, int, (struct vb_dmah *))                                                 \
	X(ibv_reg_mr_ex, struct ibv_mr *, (struct ibv_pd *, struct vb_mr_attr *))                    \
	X(ibv_dm_export_dmabuf_fd, int, (struct ibv_dm *))                                           \
	X(ibv_query_port_speed, int, (struct ibv_context *, uint32_t, uint64_t *))                   \
	X(ibv_alloc_buf, void *, (struct ibv_pd *, size_t, struct vb_buf **))                        \
	X(ibv_free_buf, void, (struct vb_buf *))                                                     \
	X(ibv_reg_buf_mr, struct ibv_mr *, (struct ibv_pd *, struct vb_buf *, void *, size_t, int))  \
	X(ibv_export_buf_dmabuf_fd, int, (struct vb_buf *))                                          \
	X(_ibv_query_comp_cntr_caps, int, (struct ibv_context *, struct vb_comp_cntr_caps *, size_t)) \
	X(ibv_create_comp_cntr, struct vb_comp_cntr *, (struct ibv_context *, struct vb_comp_cntr_attr *)) \
	X(ibv_destroy_comp_cntr, int, (struct vb_comp_cntr *))                                       \
	X(ibv_set_comp_cntr, int, (struct vb_comp_cntr *, uint64_t))                                 \
	X(ibv_set_err_comp_cntr, int, (struct vb_comp_cntr *, uint64_t))                             \
	X(ibv_inc_comp_cntr, int, (struct vb_comp_cntr *, uint64_t))                                 \
	X(ibv_inc_err_comp_cntr, int, (struct vb_comp_cntr *, uint64_t))                             \
	X(ibv_read_comp_cntr, int, (struct vb_comp_cntr *, uint64_t *))                              \
	X(ibv_read_err_comp_cntr, int, (struct vb_comp_cntr *, uint64_t *))                          \
	X(ibv_qp_attach_comp_cntr, int, (struct ibv_qp *, struct vb_comp_cntr *, struct vb_attach_comp_cntr *))

struct vb_newer_table {
#define X(name, result, args) result(*name) args;
	VB_NEWER(X)
#undef X
};

extern struct vb_newer_table vb_newer;

/* The member that version 56 added to the end of struct ibv_qp_ex. It exists
 * in every queue pair that a provider made with the flush operation, because
 * older ones refuse to make it. */
typedef void (*vb_flush_fn)(struct ibv_qp_ex *, uint32_t rkey, uint64_t addr, size_t len, uint8_t type, uint8_t level);

static inline vb_flush_fn vb_wr_flush(struct ibv_qp_ex *ex)
{
	vb_flush_fn fn;

	memcpy(&fn, (char *)ex + offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void *), sizeof(fn));
	return fn;
}

/* struct ibv_port_attr of version 56 on; older libraries leave the tail as it
 * was given. */
union vb_port_attr {
	struct ibv_port_attr attr;
	struct {
		uint8_t older[52];
		uint32_t active_speed_ex;
	} tail;
};

#endif
