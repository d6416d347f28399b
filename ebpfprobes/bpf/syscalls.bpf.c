/* Registration of memory regions by the system calls alone: for kernels that tell nothing
 * of their functions and types. Tracepoints of write() and ioctl(), whose arguments and
 * whose content are the UAPI's, which does not change. Nothing here is fitted to the
 * running kernel (CO-RE).
 *
 * These are every program's calls: what is not an uverbs command has to be let go with
 * as little as can be. */
#include "syscalls_context.h"
#include "syscalls_call.h"
#include "syscalls_count.h"

/* What the tracepoints hand over: Go holds it to the format that the kernel tells
 * (events/syscalls/ of tracefs). */
struct entering {
	u64 common;
	s64 number;
	u64 fd, second, third;
};

struct leaving {
	u64 common;
	s64 number;
	s64 value;
};

static __always_inline void begin(u64 id, struct flight *f)
{
	struct descriptor d = { .tgid = id >> 32, .fd = f->fd };
	struct context *c = context_of(&d, false);

	if (!c || (!f->counts && !f->opens && c->sure))
		return;
	f->context = c->id;
	f->generation = generation;
	if (f->counts && f->operation != REGISTER)
		know_region(c, f);
	f->began = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&flights, &id, f, BPF_NOEXIST)) {
		count(LOST_FLIGHTS); /* there is no room, or the end of the last was not seen */
		bpf_map_update_elem(&flights, &id, f, BPF_EXIST);
	}
}

static __always_inline struct scratch *clean_scratch(void)
{
	u32 only = 0;
	struct scratch *s = bpf_map_lookup_elem(&scratches, &only);

	if (s)
		__builtin_memset(&s->flight, 0, sizeof(s->flight));
	return s;
}

SEC("tracepoint/syscalls/sys_enter_write")
int write_begins(struct entering *ctx)
{
	struct command command;
	u64 id = bpf_get_current_pid_tgid(), size = ctx->third;

	/* A header and four bytes at least; at most as many words as it can tell. */
	if (!wanted(id >> 32) || size < 12 || size & 3 || size > 4 * 0xffff)
		return 0;
	if (bpf_probe_read_user(&command, sizeof(command), (void *)ctx->second) || command.words * 4 != size)
		return 0;
	if (command.number != GET_CONTEXT && command.number != REG_MR &&
	    command.number != REREG_MR && command.number != DEREG_MR)
		return 0;
	struct scratch *s = clean_scratch();
	if (!s)
		return 0;
	struct flight *f = &s->flight;
	f->fd = ctx->fd;
	f->buffer = -1;
	f->opens = command.number == GET_CONTEXT;
	if (f->opens || read_command(f, command.number, (void *)(ctx->second + sizeof(command)), 0))
		begin(id, f);
	return 0;
}

SEC("tracepoint/syscalls/sys_enter_ioctl")
int ioctl_begins(struct entering *ctx)
{
	struct method method;
	struct header header;
	u64 id = bpf_get_current_pid_tgid(), at = ctx->third + sizeof(header);

	if ((u32)ctx->second != RDMA_VERBS_IOCTL || !wanted(id >> 32))
		return 0;
	struct scratch *s = clean_scratch();
	if (!s)
		return 0;
	if (bpf_probe_read_user(&header, sizeof(header), (void *)ctx->third)) {
		count(LOST_FLIGHTS);
		return 0;
	}
	if (header.length != sizeof(header) + header.attributes * sizeof(struct attribute))
		return 0; /* the kernel refuses it as well */
	struct flight *f = &s->flight;
	u32 n = header.attributes < ATTRIBUTES ? header.attributes : ATTRIBUTES;

	f->fd = ctx->fd;
	f->buffer = -1;
	f->ioctl = 1;
	f->opens = header.object == OBJECT_DEVICE && header.method == DEVICE_GET_CONTEXT;
	bool invoke = header.object == OBJECT_DEVICE && header.method == DEVICE_INVOKE_WRITE;
	f->counts = method_of(&header, &method);
	if ((invoke || f->counts) &&
	    bpf_probe_read_user(s->attributes, n * sizeof(struct attribute), (void *)at)) {
		count(LOST_FLIGHTS);
		return 0;
	}
	if (invoke && !take_command(f, s, n, at))
		return 0;
	if (f->counts && !invoke) {
		f->operation = method.operation;
		f->kind = method.kind;
		take_attributes(f, s, n, at, &method);
	}
	/* Other methods show what the descriptor is. */
	begin(id, f);
	return 0;
}

static __always_inline void finish(struct flight *f, u64 id, s64 value, u64 took)
{
	struct descriptor d = { .tgid = id >> 32, .fd = f->fd };
	s32 error = value < 0 ? value : 0;
	u8 sure = f->ioctl && !error;
	struct context *c = context_of(&d, f->opens && !error);

	if (c && sure)
		c->sure = 1;
	if (c && c->sure)
		sure = 1;
	if (!f->counts)
		return;
	if (!error && f->operation != DEREGISTER)
		read_answer(f);
	/* Its table is for one context: another may have come with the same number. */
	if (c && c->id == f->context &&
	    (error ? f->taken : f->operation != DEREGISTER))
		keep_region(c, f);
	struct cell_key k = {
		.context = f->context, .tgid = d.tgid, .operation = f->operation, .kind = f->kind,
		.size = f->length ? highest_bit(f->length) : 0, .sure = sure,
	};
	struct cell *cell = bpf_map_lookup_elem(&cells, &k);
	if (!cell) {
		bpf_map_update_elem(&cells, &k, &empty, BPF_NOEXIST);
		cell = bpf_map_lookup_elem(&cells, &k);
		if (cell)
			note_process(d.tgid);
	}
	if (cell)
		add(cell, f, took, error);
	else
		count(LOST_CELLS);
	if (error)
		fail(f, d.tgid, error, sure);
	if (want_events && took >= slower_than)
		send(f, id, took, error, sure);
}

/* Both calls end alike. */
static __always_inline int end(struct leaving *ctx, u8 ioctl)
{
	u64 id = bpf_get_current_pid_tgid();

	if (!wanted(id >> 32))
		return 0;
	struct flight *f = bpf_map_lookup_elem(&flights, &id);
	if (!f)
		return 0;
	u64 took = bpf_ktime_get_ns() - f->began;
	if (f->generation != generation || f->ioctl != ioctl) {
		if (f->counts)
			count(LOST_FLIGHTS); /* its end was not seen */
	} else {
		finish(f, id, ctx->value, took);
	}
	bpf_map_delete_elem(&flights, &id);
	return 0;
}

SEC("tracepoint/syscalls/sys_exit_write")
int write_ends(struct leaving *ctx)
{
	return end(ctx, 0);
}

SEC("tracepoint/syscalls/sys_exit_ioctl")
int ioctl_ends(struct leaving *ctx)
{
	return end(ctx, 1);
}
