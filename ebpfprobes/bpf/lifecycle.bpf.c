/* Objects of RDMA and dma-bufs from birth to end: which are alive, whose they are, and
 * the stack that made them. */
#include "resources.h"
#include "snapshot.h"

const volatile u8 want_kernel_stacks = 0;

enum resource { PROTECTION_DOMAIN, COMPLETION_QUEUE, QUEUE_PAIR, MEMORY_REGION, DMA_BUFFER };

struct object {
	u64 born;		/* CLOCK_MONOTONIC */
	u64 process;		/* process_began() */
	u64 size;		/* bytes, of regions and dma-bufs */
	u64 inode;		/* of dma-bufs */
	u32 tgid, device;
	u32 number;		/* of queue pairs; of others the kernel's id */
	s32 kernel_stack;	/* of stacks; negative is none */
	u8 resource;
	u8 kernel;		/* the kernel's own: tgid and process are 0 */
	u8 pad[6];
	u8 comm[16];		/* of the thread, or the kernel's user of RDMA */
	u8 exporter[32];	/* of dma-bufs */
};

/* By the kernel's address, until the object ends. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 18);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct object);
} objects SEC(".maps");

/* The stack of what was made. */
struct birth {
	u64 key, born;
	u32 tgid, pad;
	struct snapshot snapshot;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} births SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 4096);
	__uint(key_size, sizeof(u32));
	__uint(value_size, 64 * sizeof(u64));
} stacks SEC(".maps");

const enum counter *unused_counter __attribute__((unused));
const struct birth *unused_birth __attribute__((unused));
const enum resource *unused_resource __attribute__((unused));

static __always_inline void send_birth(void *ctx, u64 key, const struct object *o)
{
	struct birth *b = bpf_ringbuf_reserve(&births, sizeof(*b), 0);

	if (!b) {
		count(LOST_EVENTS);
		return;
	}
	b->key = key;
	b->born = o->born;
	b->tgid = o->tgid;
	b->pad = 0;
	take_snapshot(ctx, &b->snapshot);
	bpf_ringbuf_submit(b, 0);
}

static __always_inline void born(void *ctx, u64 key, struct object *o)
{
	o->born = bpf_ktime_get_ns();
	o->kernel_stack = -1;
	if (want_kernel_stacks) {
		/* Of two stacks of one hash the later one is refused, not mixed. */
		o->kernel_stack = bpf_get_stackid(ctx, &stacks, 0);
		if (o->kernel_stack < 0)
			count(LOST_STACKS);
	}
	if (!o->kernel) {
		o->tgid = bpf_get_current_pid_tgid() >> 32;
		o->process = process_began();
		bpf_get_current_comm(o->comm, sizeof(o->comm));
	}
	if (bpf_map_update_elem(&objects, &key, o, BPF_ANY)) {
		count(LOST_REGIONS);
		return;
	}
	if (!o->kernel)
		send_birth(ctx, key, o);
}

/* Whether an object is followed: not those of other processes, nor the kernel's own
 * where one process is asked for. */
static __always_inline bool followed(bool kernel)
{
	if (kernel)
		return !only_process;
	return wanted(bpf_get_current_pid_tgid() >> 32);
}

#define CONTAINER(type, e) ((void *)(e) - bpf_core_field_offset(type, res))

/* rdma_restrack_add, where numbers, keys and lengths are set. */
ON_ENTRY_1(tracked, entry)
{
	struct rdma_restrack_entry *e = (void *)entry;
	struct rdma_restrack_entry___owner *owner = (void *)entry;
	u32 type = BPF_CORE_READ(e, type);
	struct object o = { .number = BPF_CORE_READ(e, id) };

	o.kernel = !BPF_CORE_READ(owner, user);
	if (!followed(o.kernel))
		return 0;
	if (is_type(type, RDMA_RESTRACK_MR)) {
		struct ib_mr *m = CONTAINER(struct ib_mr, e);

		o.resource = MEMORY_REGION;
		o.size = BPF_CORE_READ(m, length);
		o.device = device_of(BPF_CORE_READ(m, device));
	} else if (is_type(type, RDMA_RESTRACK_QP)) {
		struct ib_qp *q = CONTAINER(struct ib_qp, e);

		o.resource = QUEUE_PAIR;
		o.number = BPF_CORE_READ(q, qp_num);
		o.device = device_of(BPF_CORE_READ(q, device));
	} else if (is_type(type, RDMA_RESTRACK_CQ)) {
		struct ib_cq *c = CONTAINER(struct ib_cq, e);

		o.resource = COMPLETION_QUEUE;
		o.device = device_of(BPF_CORE_READ(c, device));
	} else if (is_type(type, RDMA_RESTRACK_PD)) {
		struct ib_pd___res *p = CONTAINER(struct ib_pd___res, e);

		o.resource = PROTECTION_DOMAIN;
		o.device = device_of(BPF_CORE_READ(p, device));
	} else {
		return 0;
	}
	if (o.kernel)
		bpf_probe_read_kernel_str(o.comm, sizeof(o.comm), BPF_CORE_READ(owner, kern_name));
	born(ctx, entry, &o);
	return 0;
}

ON_ENTRY_1(untracked, entry)
{
	bpf_map_delete_elem(&objects, &entry);
	return 0;
}

/* The return of dma_buf_export. */
ON_RETURN(exported, value)
{
	struct dma_buf *b = (void *)value;

	if (!value || value >= (u64)-4095 || !followed(false))
		return 0;
	struct object o = {
		.resource = DMA_BUFFER, .device = NO_DEVICE,
		.size = BPF_CORE_READ(b, size),
		.inode = BPF_CORE_READ(b, file, f_inode, i_ino),
	};
	bpf_probe_read_kernel_str(o.exporter, sizeof(o.exporter), BPF_CORE_READ(b, exp_name));
	born(ctx, value, &o);
	return 0;
}

/* dma_buf_release, which the last reference's end calls. */
ON_ENTRY_1(released, dentry)
{
	u64 key = (u64)BPF_CORE_READ((struct dentry *)dentry, d_fsdata);

	bpf_map_delete_elem(&objects, &key);
	return 0;
}
