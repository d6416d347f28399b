/* The C side of package verbs: one thin function per verb.
 *
 * libibverbs is not linked but loaded while the program runs (library.go), so
 * every exported function is reached through a table. Functions that the header
 * defines inline only follow pointers of the context and are used as they are,
 * except where they fall back to an exported function.
 */
#ifndef PEERDIRECT_VERBS_SHIM_H
#define PEERDIRECT_VERBS_SHIM_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs.h>
#include "newer.h"

/* In the header some names are also function-like macros; the table's entries
 * are written without parentheses, so the macros do not apply to them. */

/* Present in every libibverbs since version 28 (2020); loading fails without. */
#define VB_REQUIRED(X)                                                         \
	X(ibv_get_device_list)                                                 \
	X(ibv_free_device_list)                                                \
	X(ibv_get_device_name)                                                 \
	X(ibv_get_device_guid)                                                 \
	X(ibv_open_device)                                                     \
	X(ibv_close_device)                                                    \
	X(ibv_get_async_event)                                                 \
	X(ibv_ack_async_event)                                                 \
	X(ibv_query_device)                                                    \
	X(ibv_query_port)                                                      \
	X(ibv_query_gid)                                                       \
	X(ibv_query_pkey)                                                      \
	X(ibv_get_pkey_index)                                                  \
	X(ibv_alloc_pd)                                                        \
	X(ibv_dealloc_pd)                                                      \
	X(ibv_reg_mr)                                                          \
	X(ibv_reg_mr_iova2)                                                    \
	X(ibv_rereg_mr)                                                        \
	X(ibv_dereg_mr)                                                        \
	X(ibv_create_comp_channel)                                             \
	X(ibv_destroy_comp_channel)                                            \
	X(ibv_create_cq)                                                       \
	X(ibv_resize_cq)                                                       \
	X(ibv_destroy_cq)                                                      \
	X(ibv_get_cq_event)                                                    \
	X(ibv_ack_cq_events)                                                   \
	X(ibv_create_srq)                                                      \
	X(ibv_modify_srq)                                                      \
	X(ibv_query_srq)                                                       \
	X(ibv_destroy_srq)                                                     \
	X(ibv_create_qp)                                                       \
	X(ibv_modify_qp)                                                       \
	X(ibv_query_qp)                                                        \
	X(ibv_destroy_qp)                                                      \
	X(ibv_qp_to_qp_ex)                                                     \
	X(ibv_create_ah)                                                       \
	X(ibv_init_ah_from_wc)                                                 \
	X(ibv_destroy_ah)                                                      \
	X(ibv_attach_mcast)                                                    \
	X(ibv_detach_mcast)                                                    \
	X(ibv_fork_init)

/* Newer, or not everywhere: absent ones are reported as unsupported. */
#define VB_OPTIONAL(X)                                                         \
	X(ibv_get_device_index)                                                \
	X(_ibv_query_gid_ex)                                                   \
	X(_ibv_query_gid_table)                                                \
	X(ibv_reg_dmabuf_mr)                                                   \
	X(ibv_query_ece)                                                       \
	X(ibv_set_ece)                                                         \
	X(ibv_is_fork_initialized)                                             \
	X(ibv_query_qp_data_in_order)                                          \
	X(ibv_import_device)                                                   \
	X(ibv_import_pd)                                                       \
	X(ibv_unimport_pd)                                                     \
	X(ibv_import_mr)                                                       \
	X(ibv_unimport_mr)                                                     \
	X(ibv_import_dm)                                                       \
	X(ibv_unimport_dm)

struct vb_table {
#define X(name) __typeof__(name) *name;
	VB_REQUIRED(X)
	VB_OPTIONAL(X)
#undef X
};

extern struct vb_table vb;

/* Fills the table from a dlopen handle; gives the name of the first required
 * function that is missing, or NULL. */
const char *vb_load(void *handle);

/* Looks up a function by name in the loaded library, for declarations that the
 * build's header lacks. */
void *vb_symbol(const char *name);

/* Errors: functions that give a pointer set errno; functions that give an int
 * give the error number itself, always positive here. VB_RC turns the habit of
 * some verbs (-1 and errno, or a negative errno) into that. */
static inline int vb_rc(int rc)
{
	if (rc == -1)
		return errno ? errno : EIO;
	return rc < 0 ? -rc : rc;
}

/* The extended operation of a context, or errno EOPNOTSUPP and NULL. */
#define VB_OP(ctx, op)                                                         \
	({                                                                     \
		struct verbs_context *v_ = verbs_get_ctx_op(ctx, op);          \
		if (!v_)                                                       \
			errno = EOPNOTSUPP;                                    \
		v_;                                                            \
	})

#endif
