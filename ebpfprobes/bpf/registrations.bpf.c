/* Registration of memory regions: how long each call takes, and in which phase.
 *
 * A call is followed from the file operation of the uverbs device to its return.
 * Phases nest (the driver's operation pins pages and maps them); time goes to the
 * innermost one that has begun and not ended, so that the phases of a call add up to
 * the whole. */
#include "common.h"
#include "snapshot.h"

enum phase {
	UVERBS,		/* the system call outside of everything below */
	DRIVER,		/* the driver's operation outside of everything below */
	PIN,		/* pages of the process are pinned */
	MAP,		/* they are mapped for the device */
	ATTACH,		/* dma-buf: attached to the exporter */
	BUFFER_PIN,	/* dma-buf: the exporter pins it */
	BUFFER_MAP,	/* dma-buf: the exporter maps it */
	FENCE,		/* waited until the buffer's work in flight was done */
	COMMAND,	/* the device carries out a command */
	TRACING,	/* these programs themselves, at the end of the call */
	PHASES,
};
#define WHOLE PHASES /* its place beside the phases */

enum operation { REGISTER, REREGISTER, DEREGISTER };

enum kind { UNKNOWN, HOST, ON_DEMAND, DMA_BUF, DEVX };

/* Cookies: a phase or an operation, and how the return value tells an error. */
#define COOKIE_VALUE 0xff
#define RETURNS_POINTER 0x100
#define RETURNS_NOTHING 0x200
#define RETURNS_LONG 0x400
#define COOKIE_KIND(c) (((c) >> 12) & 0xf)

#define DEPTH 8
#define NO_DEVICE 0xffffffff
#define NAME 64

/* A thread's call in flight. It stays with the thread, so that a call allocates
 * nothing. */
struct flight {
	u64 began, mark;	/* of CLOCK_MONOTONIC; mark: when the phase of now began */
	u64 spent[PHASES];
	u64 length, iova, inode, buffer_size;
	u64 ib_device;		/* the kernel's address, to read the name from if need be */
	u32 tgid, device;
	u32 lkey, rkey;
	u32 generation;		/* in which it began */
	s32 error;		/* what the call returned, negative errno */
	s32 cause;		/* what the innermost function that failed returned */
	u8 cause_phase;
	u8 depth;
	u8 operation, kind;
	u8 inside;		/* handlers that have begun and not ended */
	u8 called;		/* began with the file operation */
	u8 known;		/* operation is */
	u8 active;
	u8 stack[DEPTH];
	u8 exporter[32];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flight);
} flights SEC(".maps");

struct cell_key {
	u32 tgid, device;
	u8 operation, kind, size, pad; /* size: n for lengths of 2^n to 2^(n+1)-1 */
};

/* Times by phase, and of the whole call last. */
struct cell {
	u64 count, failed, bytes;
	u64 sum[PHASES + 1], longest[PHASES + 1];
	u32 slots[PHASES + 1][SLOTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct cell_key);
	__type(value, struct cell);
} cells SEC(".maps");

struct name {
	u8 text[NAME];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, u32); /* ib_device.index */
	__type(value, struct name);
} devices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32); /* tgid */
	__type(value, struct name);
} processes SEC(".maps");

/* Failures by what failed: bounded by the errnos that there are. */
struct failure_key {
	u32 tgid, device;
	s32 error, cause;
	u8 operation, kind, cause_phase, pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct failure_key);
	__type(value, u64);
} failures SEC(".maps");

struct event {
	u64 at;			/* CLOCK_MONOTONIC, when the call ended */
	u64 took;
	u64 spent[PHASES];
	u64 length, iova, inode, buffer_size;
	u32 tgid, tid, device;
	u32 lkey, rkey;
	s32 error, cause;
	u8 cause_phase, operation, kind, pad;
	u8 exporter[32];
	u8 name[NAME];
	u8 comm[16];
};

/* With want_stacks. */
struct event_stack {
	struct event event;
	struct snapshot snapshot;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

/* Keep these types in the object, for Go. */
const struct event *unused_event __attribute__((unused));
const struct event_stack *unused_event_stack __attribute__((unused));
const enum phase *unused_phase __attribute__((unused));
const enum operation *unused_operation __attribute__((unused));
const enum kind *unused_kind __attribute__((unused));
const enum counter *unused_counter __attribute__((unused));

static const struct cell empty = {};

/* Raised when programs were detached: they may have missed the ends of calls, or of
 * phases, that began before. */
u32 generation = 0;

static __always_inline void lose(struct flight *f)
{
	f->active = 0;
	count(LOST_FLIGHTS);
}

static __always_inline struct flight *flight_of_now(void)
{
	struct flight *f = bpf_task_storage_get(&flights, bpf_get_current_task_btf(), NULL, 0);

	if (!f || !f->active)
		return NULL;
	if (f->generation != generation) {
		lose(f);
		return NULL;
	}
	return f;
}

/* A file operation begins: a call that is still in flight has lost its end, by a return
 * probe that missed. This one's end is not to be taken for it. */
static __always_inline void lose_last(void)
{
	struct flight *f = flight_of_now();

	if (f)
		lose(f);
}

static __always_inline struct flight *begin(void)
{
	u64 now = bpf_ktime_get_ns();
	u32 tgid = bpf_get_current_pid_tgid() >> 32;

	if (!wanted(tgid))
		return NULL;
	struct flight *f = bpf_task_storage_get(&flights, bpf_get_current_task_btf(), NULL,
						BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!f) {
		count(LOST_FLIGHTS);
		return NULL;
	}
	/* What is not cleared is only read after it was set. */
	__builtin_memset(f->spent, 0, sizeof(f->spent));
	f->length = f->iova = f->inode = f->buffer_size = 0;
	f->ib_device = 0;
	f->tgid = tgid;
	f->generation = generation;
	f->device = NO_DEVICE;
	f->lkey = f->rkey = 0;
	f->error = f->cause = 0;
	f->cause_phase = f->depth = f->operation = f->kind = 0;
	f->inside = f->called = f->known = 0;
	f->active = 1;
	f->exporter[0] = 0;
	f->began = f->mark = now;
	return f;
}

/* The time since the last change goes to the innermost phase. */
static __always_inline void settle(struct flight *f)
{
	u64 now = bpf_ktime_get_ns();
	u8 phase = f->depth ? f->stack[(f->depth - 1) & (DEPTH - 1)] : UVERBS;

	if (phase < PHASES)
		f->spent[phase] += now - f->mark;
	f->mark = now;
}

static __always_inline void push(struct flight *f, u8 phase)
{
	settle(f);
	if (f->depth < DEPTH)
		f->stack[f->depth & (DEPTH - 1)] = phase;
	f->depth++;
}

static __always_inline void pop(struct flight *f)
{
	settle(f);
	if (f->depth)
		f->depth--;
}

static __always_inline s32 error_of(u64 cookie, u64 value)
{
	if (cookie & RETURNS_NOTHING)
		return 0;
	if (cookie & RETURNS_POINTER)
		return value >= (u64)-4095 ? (s32)value : 0;
	if (cookie & RETURNS_LONG)
		return (s64)value < 0 ? (s32)value : 0;
	return (s32)value < 0 ? (s32)value : 0;
}

static __always_inline void blame(struct flight *f, s32 error, u8 phase)
{
	/* Inner functions return first: the first error is the innermost. */
	if (error && !f->cause) {
		f->cause = error;
		f->cause_phase = phase;
	}
}

static __always_inline void on_device(const bool typed, struct flight *f, struct ib_device *d)
{
	if (!d || f->ib_device)
		return;
	f->ib_device = (u64)d;
	f->device = READ(d, index);
}

/* write(): commands of 6.12's include/uapi/rdma/ib_user_verbs.h. Posting and polling
 * of software devices come this way too, so that nothing is done for them. */
ON_ENTRY_3(write_call, file, buffer, size)
{
	u32 command;

	if (!wanted(bpf_get_current_pid_tgid() >> 32))
		return 0;
	lose_last();
	if (size < 8 || bpf_probe_read_user(&command, sizeof(command), (void *)buffer))
		return 0;
	/* The upper bits are flags. */
	switch (command & 0xff) {
	case 9:  /* IB_USER_VERBS_CMD_REG_MR */
	case 12: /* IB_USER_VERBS_CMD_REREG_MR */
	case 13: /* IB_USER_VERBS_CMD_DEREG_MR */
		break;
	default:
		return 0;
	}
	struct flight *f = begin();
	if (f)
		f->called = 1;
	return 0;
}

/* ioctl(): include/uapi/rdma/rdma_user_ioctl_cmds.h. */
ON_ENTRY_3(ioctl_call, file, command, argument)
{
	struct {
		u16 length, object, method, attributes;
	} header;

	if (!wanted(bpf_get_current_pid_tgid() >> 32))
		return 0;
	lose_last();
	if ((u32)command != 0xC0181B01 ||
	    bpf_probe_read_user(&header, sizeof(header), (void *)argument))
		return 0;
	/* UVERBS_OBJECT_MR, or UVERBS_METHOD_INVOKE_WRITE of UVERBS_OBJECT_DEVICE, or an
	 * object of the driver's own (DEVX). */
	if (header.object != 7 && header.object && !(header.object & 0x1000))
		return 0;
	struct flight *f = begin();
	if (f)
		f->called = 1;
	return 0;
}

static __always_inline void device_name(struct flight *f, u8 *to)
{
	struct ib_device *d = (void *)f->ib_device;

	if (d)
		bpf_core_read_str(to, NAME, &d->name);
}

static __always_inline void note_names(struct flight *f)
{
	struct name n = {};

	bpf_get_current_comm(n.text, 16);
	keep_name(&processes, &f->tgid, &n);
	if (f->device == NO_DEVICE)
		return;
	device_name(f, n.text);
	if (bpf_map_update_elem(&devices, &f->device, &n, BPF_ANY))
		count(LOST_NAMES);
}

static __always_inline void add(struct cell *c, u32 phase, u64 took)
{
	u32 slot = slot_of(took);

	if (phase > WHOLE || slot >= SLOTS)
		return;
	__sync_fetch_and_add(&c->slots[phase][slot], 1);
	__sync_fetch_and_add(&c->sum[phase], took);
	if (took > c->longest[phase])
		c->longest[phase] = took; /* two at once may lose the longer one */
}

/* The number of the highest bit; 0 of 0. */
static __always_inline u8 size_of(u64 length)
{
	return length ? highest_bit(length) : 0;
}

static __always_inline void describe(struct event *e, struct flight *f, u64 took)
{
	u64 id = bpf_get_current_pid_tgid();
	e->at = f->began + took;
	e->took = took;
	__builtin_memcpy(e->spent, f->spent, sizeof(e->spent));
	e->length = f->length;
	e->iova = f->iova;
	e->inode = f->inode;
	e->buffer_size = f->buffer_size;
	e->tgid = id >> 32;
	e->tid = id;
	e->device = f->device;
	e->lkey = f->lkey;
	e->rkey = f->rkey;
	e->error = f->error;
	e->cause = f->cause;
	e->cause_phase = f->cause_phase;
	e->operation = f->operation;
	e->kind = f->kind;
	e->pad = 0;
	__builtin_memcpy(e->exporter, f->exporter, sizeof(e->exporter));
	__builtin_memset(e->name, 0, sizeof(e->name));
	device_name(f, e->name);
	bpf_get_current_comm(e->comm, sizeof(e->comm));
}

static __always_inline void send(void *ctx, struct flight *f, u64 took)
{
	if (want_stacks) {
		struct event_stack *s = bpf_ringbuf_reserve(&events, sizeof(*s), 0);

		if (!s) {
			count(LOST_EVENTS);
			return;
		}
		describe(&s->event, f, took);
		take_snapshot(ctx, &s->snapshot);
		bpf_ringbuf_submit(s, 0);
		return;
	}
	struct event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e) {
		count(LOST_EVENTS);
		return;
	}
	describe(e, f, took);
	bpf_ringbuf_submit(e, 0);
}

static __always_inline void fail(struct flight *f)
{
	struct failure_key k = {
		.tgid = f->tgid, .device = f->device, .error = f->error, .cause = f->cause,
		.operation = f->operation, .kind = f->kind, .cause_phase = f->cause_phase,
	};
	u64 one = 1, *n = bpf_map_lookup_elem(&failures, &k);

	if (n)
		__sync_fetch_and_add(n, 1);
	else if (bpf_map_update_elem(&failures, &k, &one, BPF_NOEXIST)) {
		n = bpf_map_lookup_elem(&failures, &k); /* another was first */
		if (n)
			__sync_fetch_and_add(n, 1);
		else
			count(LOST_CELLS);
	}
}

static __always_inline struct cell *cell_of(struct flight *f)
{
	struct cell_key k = {
		.tgid = f->tgid, .device = f->device,
		.operation = f->operation, .kind = f->kind, .size = size_of(f->length),
	};
	struct cell *c = bpf_map_lookup_elem(&cells, &k);

	if (c)
		return c;
	bpf_map_update_elem(&cells, &k, &empty, BPF_NOEXIST);
	c = bpf_map_lookup_elem(&cells, &k);
	if (c)
		note_names(f);
	return c;
}

static __always_inline void finish(void *ctx, struct flight *f)
{
	settle(f);
	f->active = 0;
	if (!f->known)
		return;
	if (!f->error)
		f->cause = 0; /* tried another way, and it worked */
	else
		fail(f);
	struct cell *c = cell_of(f);
	if (c) {
		__sync_fetch_and_add(&c->count, 1);
		__sync_fetch_and_add(&c->bytes, f->length);
		if (f->error)
			__sync_fetch_and_add(&c->failed, 1);
		for (u32 i = 0; i < TRACING; i++)
			if (f->spent[i])
				add(c, i, f->spent[i]);
	} else {
		count(LOST_CELLS);
	}
	/* The caller waits for all this too: it is told as a phase. */
	u64 now = bpf_ktime_get_ns(), took = now - f->began;
	f->spent[TRACING] = now - f->mark;
	if (c) {
		add(c, TRACING, f->spent[TRACING]);
		add(c, WHOLE, took);
	}
	if (want_events && took >= slower_than)
		send(ctx, f, took);
}

ON_RETURN(call_end, value)
{
	struct flight *f = flight_of_now();

	if (f && f->called)
		finish(ctx, f);
	return 0;
}

/* The handler of a registration. The kernel ends regions without a call too, when the
 * process is gone: the flight begins here then. */
static __always_inline struct flight *enter(u64 cookie)
{
	struct flight *f = flight_of_now();

	if (f && f->known && !f->inside) {
		lose(f); /* its handler has ended, and the call's end was lost */
		f = NULL;
	}
	if (!f)
		f = begin();
	if (!f)
		return NULL;
	if (!f->known) {
		f->known = 1;
		f->operation = cookie & COOKIE_VALUE;
		if (COOKIE_KIND(cookie))
			f->kind = COOKIE_KIND(cookie);
	}
	f->inside++;
	return f;
}

ON_ENTRY_0(handler)
{
	enter(cookie);
	return 0;
}

static __always_inline void keys_of(struct flight *f, struct ib_mr *m)
{
	f->lkey = BPF_CORE_READ(m, lkey);
	f->rkey = BPF_CORE_READ(m, rkey);
}

ON_ENTRY_1(deregister, mr)
{
	struct flight *f = enter(cookie);

	if (!f)
		return 0;
	struct ib_mr *m = (void *)mr;
	f->length = READ(m, length);
	on_device(typed, f, READ(m, device));
	if (want_events) {
		f->iova = BPF_CORE_READ(m, iova);
		keys_of(f, m);
	}
	return 0;
}

ON_RETURN(handler_end, value)
{
	struct flight *f = flight_of_now();

	if (!f || !f->inside)
		return 0;
	f->error = error_of(cookie, value);
	blame(f, f->error, UVERBS);
	if (--f->inside == 0 && !f->called)
		finish(ctx, f);
	return 0;
}

/* ib_device_ops.reg_user_mr and reg_user_mr_dmabuf: what follows the address differs
 * between kernels. */
ON_ENTRY_4(driver, pd, start, length, iova)
{
	struct flight *f = flight_of_now();

	if (!f)
		return 0;
	push(f, DRIVER);
	f->length = length;
	f->iova = iova;
	if (COOKIE_KIND(cookie))
		f->kind = COOKIE_KIND(cookie);
	on_device(typed, f, READ((struct ib_pd *)pd, device));
	return 0;
}

/* It returns the region, which has its keys by then. */
ON_RETURN(driver_end, value)
{
	struct flight *f = flight_of_now();

	if (!f)
		return 0;
	pop(f);
	s32 error = error_of(cookie, value);
	if (error || !value) {
		blame(f, error, DRIVER);
		return 0;
	}
	if (f->kind == UNKNOWN)
		f->kind = HOST;
	if (want_events)
		keys_of(f, (void *)value);
	return 0;
}

ON_ENTRY_0(phase)
{
	struct flight *f = flight_of_now();

	if (f)
		push(f, cookie & COOKIE_VALUE);
	return 0;
}

ON_RETURN(phase_end, value)
{
	struct flight *f = flight_of_now();

	if (!f)
		return 0;
	pop(f);
	blame(f, error_of(cookie, value), cookie & COOKIE_VALUE);
	return 0;
}

/* What a function's being called tells of the region. */
ON_ENTRY_0(kind_seen)
{
	struct flight *f = flight_of_now();

	if (f && f->kind < COOKIE_KIND(cookie))
		f->kind = COOKIE_KIND(cookie);
	return 0;
}

ON_ENTRY_1(buffer, dma_buf)
{
	struct flight *f = flight_of_now();

	if (!f)
		return 0;
	struct dma_buf *b = (void *)dma_buf;
	f->kind = DMA_BUF;
	f->inode = BPF_CORE_READ(b, file, f_inode, i_ino);
	f->buffer_size = BPF_CORE_READ(b, size);
	bpf_probe_read_kernel_str(f->exporter, sizeof(f->exporter), BPF_CORE_READ(b, exp_name));
	push(f, cookie & COOKIE_VALUE);
	return 0;
}
