/* efadv, EFA's direct verbs, as rdma-core 65's providers/efa/efadv.h has them.
 * The header of the build may be older or not there, so the layouts and the
 * calls are declared here under names of their own, and libefa is asked for each
 * call by its symbol version when the program runs.
 *
 * Every structure begins with comp_mask and is passed with its size: a library
 * that knows less of it fills in, or reads, what it knows.
 */
#ifndef PEERDIRECT_EFA_EFADV_H
#define PEERDIRECT_EFA_EFADV_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <infiniband/verbs.h>

struct ef_device_attr {
	uint64_t comp_mask;
	uint32_t max_sq_wr;
	uint32_t max_rq_wr;
	uint16_t max_sq_sge;
	uint16_t max_rq_sge;
	uint16_t inline_buf_size;
	uint16_t inline_buf_size_ex;
	uint32_t device_caps;
	uint32_t max_rdma_size;
};

struct ef_ah_attr {
	uint64_t comp_mask;
	uint16_t ahn;
	uint8_t reserved[6];
};

struct ef_sq_depth_attr {
	uint64_t comp_mask;
	uint32_t flags; /* 1 inline write */
	uint32_t max_send_sge;
	uint32_t max_rdma_sge;
	uint32_t max_inline_data;
};

struct ef_rq_depth_attr {
	uint64_t comp_mask;
	uint32_t max_recv_sge;
};

struct ef_qp_init_attr {
	uint64_t comp_mask;
	uint32_t driver_qp_type; /* 0 SRD */
	uint16_t flags;          /* 1 unsolicited write receive, 2 inline write */
	uint8_t sl;
	uint8_t reserved;
	uint64_t wr_flags; /* 1 processing hints */
};

struct ef_wq_attr {
	uint64_t comp_mask;
	uint8_t *buffer;
	uint32_t entry_size;
	uint32_t num_entries;
	uint32_t *doorbell;
	uint32_t max_batch;
	uint16_t caps; /* 1 64-bit request ids */
	uint8_t reserved[2];
};

struct ef_cq_init_attr {
	uint64_t comp_mask;
	uint64_t wc_flags; /* 1 source GID, 2 is unsolicited */
	uint64_t flags;    /* 1 external memory */
	struct {
		uint8_t *buffer;
		uint64_t length;
		uint64_t offset;
		int32_t fd;
		uint8_t reserved[4];
	} ext_mem_dmabuf;
};

struct ef_cq_attr {
	uint64_t comp_mask;
	uint8_t *buffer;
	uint32_t entry_size;
	uint32_t num_entries;
	uint32_t *doorbell;
};

/* efadv_cq, what efadv_cq_from_ibv_cq_ex gives. */
struct ef_cq {
	uint64_t comp_mask;
	int (*wc_read_sgid)(struct ef_cq *cq, union ibv_gid *sgid);
	bool (*wc_is_unsolicited)(struct ef_cq *cq);
};

/* efadv_qp, what efadv_qp_from_ibv_qp_ex gives. */
struct ef_qp {
	uint64_t comp_mask;
	void (*wr_set_processing_hints)(struct ef_qp *qp, uint32_t hints);
};

struct ef_memory_location {
	uint8_t *ptr;
	struct {
		uint64_t offset;
		int32_t fd;
		uint32_t reserved;
	} dmabuf;
	uint8_t type; /* 0 address, 1 dma-buf */
	uint8_t reserved[7];
};

struct ef_comp_cntr_init_attr {
	uint64_t comp_mask;
	uint32_t flags; /* 1 own memory of completions, 2 of errors */
	uint32_t reserved;
	struct ef_memory_location comp_cntr_ext_mem;
	struct ef_memory_location err_cntr_ext_mem;
};

struct ef_mr_attr {
	uint64_t comp_mask;
	uint16_t ic_id_validity;
	uint16_t recv_ic_id;
	uint16_t rdma_read_ic_id;
	uint16_t rdma_recv_ic_id;
};

/* X(name, symbol version, result, arguments) */
#define EF_CALLS(X)                                                                                      \
	X(efadv_create_driver_qp, "EFA_1.0", struct ibv_qp *,                                            \
	  (struct ibv_pd *, struct ibv_qp_init_attr *, uint32_t))                                        \
	X(efadv_query_device, "EFA_1.1", int, (struct ibv_context *, struct ef_device_attr *, uint32_t)) \
	X(efadv_query_ah, "EFA_1.1", int, (struct ibv_ah *, struct ef_ah_attr *, uint32_t))              \
	X(efadv_create_qp_ex, "EFA_1.1", struct ibv_qp *,                                                \
	  (struct ibv_context *, struct ibv_qp_init_attr_ex *, struct ef_qp_init_attr *, uint32_t))      \
	X(efadv_create_cq, "EFA_1.2", struct ibv_cq_ex *,                                                \
	  (struct ibv_context *, struct ibv_cq_init_attr_ex *, struct ef_cq_init_attr *, uint32_t))      \
	X(efadv_cq_from_ibv_cq_ex, "EFA_1.2", struct ef_cq *, (struct ibv_cq_ex *))                      \
	X(efadv_query_mr, "EFA_1.3", int, (struct ibv_mr *, struct ef_mr_attr *, uint32_t))              \
	X(efadv_query_qp_wqs, "EFA_1.4", int,                                                            \
	  (struct ibv_qp *, struct ef_wq_attr *, struct ef_wq_attr *, uint32_t))                         \
	X(efadv_query_cq, "EFA_1.4", int, (struct ibv_cq *, struct ef_cq_attr *, uint32_t))              \
	X(efadv_get_max_sq_depth, "EFA_1.5", int,                                                        \
	  (struct ibv_context *, struct ef_sq_depth_attr *, uint32_t))                                   \
	X(efadv_get_max_rq_depth, "EFA_1.5", int,                                                        \
	  (struct ibv_context *, struct ef_rq_depth_attr *, uint32_t))                                   \
	X(efadv_qp_from_ibv_qp_ex, "EFA_1.6", struct ef_qp *, (struct ibv_qp_ex *))                      \
	X(efadv_create_comp_cntr, "EFA_1.7", void *,                                                     \
	  (struct ibv_context *, void *, struct ef_comp_cntr_init_attr *, uint32_t))

struct ef_table {
#define X(name, version, result, args) result(*name) args;
	EF_CALLS(X)
#undef X
};

/* The calls that the loaded library has; the others are NULL. */
extern struct ef_table ef;

/* Fills the table from a dlopen handle. */
void ef_load(void *handle);

/* Adds what EFA knows of a completion to the record of package verbs, whose
 * driver_flags lie at 82 (1: unsolicited) and SGID at 88; see verbs.CQOptions. */
void *ef_reader(int sgid, int unsolicited);

/* The errno of a call that is not there, and that of one that gives it as its
 * result, whatever the sign. */
#define EF_INT(name, ...)                                                      \
	({                                                                     \
		int rc_ = ef.name ? ef.name(__VA_ARGS__) : EOPNOTSUPP;         \
		rc_ == -1 ? (errno ? errno : EIO) : rc_ < 0 ? -rc_ : rc_;      \
	})

#endif
