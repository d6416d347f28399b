// Package umem replays what the kernel checks before it registers a dma-buf
// for an RDMA device, in the kernel's order, so that a refusal can be foretold
// and explained. It asks nobody and imports nothing of the project: packages
// that know nothing of each other share it.
//
// The order and the errors are those of linux 7.3.4 and 6.12.117, which agree:
// UVERBS_METHOD_REG_DMABUF_MR of drivers/infiniband/core/uverbs_std_types_mr.c,
// ib_check_mr_access of include/rdma/ib_verbs.h, then the driver's
// reg_user_mr_dmabuf, and inside it ib_umem_dmabuf_get of core/umem_dmabuf.c
// and ib_umem_find_best_pgsz of core/umem.c. UVERBS_METHOD_REG_MR, which
// ibv_reg_mr_ex uses, makes the same checks of a dma-buf.
//
// RLIMIT_MEMLOCK is no rule here: the kernel counts pages of a process's own
// memory against it (__ib_umem_get_va), and never a dma-buf's.
package umem
