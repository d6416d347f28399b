/* What a process and the kernel say to each other of memory regions, by the headers of
 * the UAPI: Linux 6.1 to 7.3, include/uapi/rdma/ib_user_verbs.h, rdma_user_ioctl_cmds.h,
 * ib_user_ioctl_cmds.h, ib_user_ioctl_verbs.h and mlx5_user_ioctl_cmds.h. */
#ifndef PEERDIRECT_UAPI_H
#define PEERDIRECT_UAPI_H

/* write(): a command, how long it is, and its struct. The answer goes to an address in
 * the struct. */
struct command {
	u32 number;
	u16 words, answer_words; /* of four bytes; with this header */
};

enum {
	GET_CONTEXT = 0, REG_MR = 9, REREG_MR = 11, DEREG_MR = 13,
};

struct reg_mr {
	u64 response, start, length, hca_va;
	u32 pd, access;
};

struct rereg_mr {
	u64 response;
	u32 handle, flags;
	u64 start, length, hca_va;
	u32 pd, access;
};

struct reg_mr_response {
	u32 handle, lkey, rkey;
};

struct rereg_mr_response {
	u32 lkey, rkey;
};

#define ACCESS_ON_DEMAND (1 << 6) /* IB_UVERBS_ACCESS_ON_DEMAND */
#define REREG_TRANSLATION 1	/* IB_MR_REREG_TRANS: flags of rereg_mr */

/* ioctl(): an object, a method and attributes. An attribute of up to eight bytes that
 * goes in stands in data; one that comes out is pointed to; an object's handle stands
 * there both ways. */
#define RDMA_VERBS_IOCTL 0xC0181B01

struct header {
	u16 length, object, method, attributes;
	u64 reserved;
	u32 driver, reserved2;
};

struct attribute {
	u16 id, length, flags, more;
	u64 data;
};

#define ATTRIBUTES 16 /* registrations have 13 at most, the driver's two included */

enum { OBJECT_DEVICE = 0, OBJECT_MR = 7, OBJECT_DEVX_UMEM = 0x1002 };
enum { DEVICE_INVOKE_WRITE = 0, DEVICE_GET_CONTEXT = 3 };
enum { MR_DESTROY = 1, MR_REG_DMABUF = 4, MR_REG = 5 };
enum { UMEM_REG = 0x1000, UMEM_DEREG = 0x1001 };
#define DRIVER_MLX5 1 /* what 0x1002 is to another driver is its own affair */

enum { WRITE_CORE_IN, WRITE_CORE_OUT, WRITE_COMMAND }; /* of DEVICE_INVOKE_WRITE */

enum { /* of MR_REG_DMABUF */
	BUFFER_HANDLE = 0, BUFFER_LENGTH = 3, BUFFER_IOVA, BUFFER_FD, BUFFER_ACCESS,
	BUFFER_LKEY, BUFFER_RKEY,
};

enum { /* of MR_REG */
	REGION_HANDLE = 0, REGION_IOVA = 3, REGION_ADDRESS, REGION_LENGTH, REGION_ACCESS,
	REGION_FD, REGION_FD_OFFSET, REGION_LKEY, REGION_RKEY,
};

enum { UMEM_HANDLE = 0x1000, UMEM_ADDRESS, UMEM_LENGTH, UMEM_ACCESS, UMEM_DMABUF_FD = 0x1006 };

#endif
