/* What fails: calls of the uverbs interface, commands of the devices, and what devices
 * and queues report by themselves. Nothing is done for what succeeds but a note that the
 * thread is in a call. */
#include "resources.h"
#include "generation.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ib_uverbs_device {
	struct ib_device *ib_dev;
};

struct ib_uverbs_file {
	struct ib_uverbs_device *device;
};

struct file___uverbs {
	void *private_data;
};

enum ib_event_type { IB_EVENT_CQ_ERR };

struct ib_event {
	struct ib_device *device;
	union {
		struct ib_cq *cq;
		struct ib_qp *qp;
		u32 port_num;
	} element;
	enum ib_event_type event;
};

struct rxe_cq {
	struct ib_cq ibcq;
	bool is_user;
};

#pragma clang attribute pop

enum class { CALL, COMMAND, EVENT, COMPLETION };

#define WRITE 1		/* flags of a key: the call came by write() */
#define NO_CODE 0xffff

/* enum ib_event_type: of the others none is an error. */
#define CQ_ERR 0
#define QP_FATAL 1
#define QP_REQ_ERR 2
#define QP_ACCESS_ERR 3
#define PATH_MIG_ERR 7
#define DEVICE_FATAL 8
#define PORT_ERR 10
#define SRQ_ERR 14
#define WQ_FATAL 19
#define ERRORS ((1 << CQ_ERR) | (1 << QP_FATAL) | (1 << QP_REQ_ERR) | (1 << QP_ACCESS_ERR) | \
		(1 << PATH_MIG_ERR) | (1 << DEVICE_FATAL) | (1 << PORT_ERR) | (1 << SRQ_ERR) | (1 << WQ_FATAL))
#define OF_QUEUE_PAIR(t) ((t) == QP_FATAL || (t) == QP_REQ_ERR || (t) == QP_ACCESS_ERR || (t) == PATH_MIG_ERR)

/* What failed, by sort. */
struct failure_key {
	u32 tgid, device;
	s32 error;		/* negative errno; 0 of events and completions */
	/* CALL: object and method, or NO_CODE and the command of write(); COMMAND: which
	 * function, and the device's opcode; EVENT: type; COMPLETION: status, vendor's. */
	u16 code, detail;
	u8 class, flags, status, pad;
};

struct command {
	s32 error;		/* 0 is none */
	u16 code, detail;
	u32 syndrome;
	u8 status, pad[3];
	u8 text[32];
};

struct failure {
	u64 count, first, last;	/* CLOCK_MONOTONIC */
	u32 number;		/* of the last: queue pair or port */
	struct command command;	/* COMMAND: itself; CALL: that failed within the last one */
	u8 comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct failure_key);
	__type(value, struct failure);
} failures SEC(".maps");

struct event {
	u64 at;
	struct failure_key key;
	u32 tid, number;
	struct command command;
	u8 name[NAME];
	u8 comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 19);
} events SEC(".maps");

/* A thread's call in flight. */
struct flight {
	u64 file;
	u32 generation;		/* in which it began */
	u16 object, method;
	u8 active, flags, pad[6];
	struct command command;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flight);
} flights SEC(".maps");

const struct event *unused_event __attribute__((unused));
const enum class *unused_class __attribute__((unused));

static __always_inline void note(const struct failure_key *k, u32 number, const struct command *c, const u8 *comm)
{
	u64 now = bpf_ktime_get_ns();
	struct failure *f = bpf_map_lookup_elem(&failures, k);

	if (!f) {
		struct failure none = { .first = now };

		if (comm)
			__builtin_memcpy(none.comm, comm, sizeof(none.comm));
		bpf_map_update_elem(&failures, k, &none, BPF_NOEXIST);
		f = bpf_map_lookup_elem(&failures, k);
	}
	if (f) {
		__sync_fetch_and_add(&f->count, 1);
		f->last = now;
		f->number = number;
		if (c)
			f->command = *c;
	} else {
		count(LOST_CELLS);
	}
	if (!want_events)
		return;
	struct event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e) {
		count(LOST_EVENTS);
		return;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->at = now;
	e->key = *k;
	e->tid = k->class < EVENT ? (u32)bpf_get_current_pid_tgid() : 0;
	e->number = number;
	if (c)
		e->command = *c;
	if (comm)
		__builtin_memcpy(e->comm, comm, sizeof(e->comm));
	struct name *n = bpf_map_lookup_elem(&devices, &k->device);
	if (n)
		__builtin_memcpy(e->name, n->text, NAME);
	bpf_ringbuf_submit(e, 0);
}

/* The thread's call, if it is in one whose beginning is not too old. */
static __always_inline struct flight *flight_of_now(void)
{
	struct flight *f = bpf_task_storage_get(&flights, bpf_get_current_task_btf(), NULL, 0);

	if (!f || !f->active)
		return NULL;
	if (f->generation == generation)
		return f;
	f->active = 0;
	count(LOST_FLIGHTS);
	return NULL;
}

static __always_inline struct flight *begin(u64 file)
{
	if (!wanted(bpf_get_current_pid_tgid() >> 32))
		return NULL;
	struct flight *f = bpf_task_storage_get(&flights, bpf_get_current_task_btf(), NULL,
						BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!f) {
		count(LOST_FLIGHTS);
		return NULL;
	}
	if (f->active)
		count(LOST_FLIGHTS); /* a call whose end was lost */
	f->generation = generation;
	f->file = file;
	f->object = f->method = NO_CODE;
	f->flags = 0;
	f->command.error = 0;
	f->active = 1;
	return f;
}

ON_ENTRY_3(write_call, file, buffer, size)
{
	struct flight *f = begin(file);
	u32 command;

	if (!f)
		return 0;
	f->flags = WRITE;
	if (size >= 8 && !bpf_probe_read_user(&command, sizeof(command), (void *)buffer))
		f->method = command & 0xff; /* the upper bits are flags */
	return 0;
}

struct attribute {
	u16 id, length, flags, pad;
	u64 data;
};

/* include/uapi/rdma/rdma_user_ioctl_cmds.h, rdma_user_ioctl.h */
ON_ENTRY_3(ioctl_call, file, command, argument)
{
	struct {
		u16 length, object, method, attributes;
	} header;

	if ((u32)command != 0xC0181B01) /* RDMA_VERBS_IOCTL */
		return 0;
	struct flight *f = begin(file);

	if (!f || bpf_probe_read_user(&header, sizeof(header), (void *)argument))
		return 0;
	f->object = header.object;
	f->method = header.method;
	if (header.object || header.method)
		return 0;
	/* UVERBS_METHOD_INVOKE_WRITE: a command of write() in an attribute, whose id is
	 * UVERBS_ATTR_WRITE_CMD. */
	f->object = NO_CODE;
	f->method = NO_CODE;
	for (int i = 0; i < 8 && i < header.attributes; i++) {
		struct attribute a;

		if (bpf_probe_read_user(&a, sizeof(a), (void *)argument + 24 + i * sizeof(a)))
			break;
		if (a.id == 2)
			f->method = a.data;
	}
	return 0;
}

ON_RETURN(call_end, value)
{
	struct flight *f = flight_of_now();

	if (!f)
		return 0;
	f->active = 0;
	if ((s64)value >= 0)
		return 0;
	struct file___uverbs *file = (void *)f->file;
	struct failure_key k = {
		.tgid = bpf_get_current_pid_tgid() >> 32, .device = NO_DEVICE,
		.error = value, .class = CALL, .code = f->object, .detail = f->method, .flags = f->flags,
	};
	if (bpf_core_type_exists(struct ib_uverbs_file)) {
		struct ib_uverbs_file *u = BPF_CORE_READ(file, private_data);

		k.device = device_of(BPF_CORE_READ(u, device, ib_dev));
	}
	u8 comm[16];
	bpf_get_current_comm(comm, sizeof(comm));
	note(&k, 0, &f->command, comm);
	return 0;
}

static __always_inline void command_failed(const struct command *c)
{
	struct flight *f = flight_of_now();
	u32 tgid = bpf_get_current_pid_tgid() >> 32;

	if (!wanted(tgid))
		return;
	struct failure_key k = {
		.tgid = tgid, .device = NO_DEVICE, .error = c->error, .class = COMMAND,
		.code = c->code, .detail = c->detail, .status = c->status,
	};
	if (f) {
		/* The innermost returns first. */
		if (!f->command.error)
			f->command = *c;
		struct file___uverbs *file = (void *)f->file;
		if (bpf_core_type_exists(struct ib_uverbs_file)) {
			struct ib_uverbs_file *u = BPF_CORE_READ(file, private_data);

			k.device = device_of(BPF_CORE_READ(u, device, ib_dev));
		}
	}
	u8 comm[16];
	bpf_get_current_comm(comm, sizeof(comm));
	note(&k, 0, c, comm);
}

/* Functions that carry out a command: the cookie tells which one. */
ON_RETURN(command_end, value)
{
	if ((s32)value >= 0)
		return 0;
	struct command c = { .error = value, .code = cookie };

	command_failed(&c);
	return 0;
}

/* mlx5:mlx5_cmd, which fires on errors only: name, opcode, modifier, name of the status,
 * status, syndrome, errno. */
SEC("raw_tp") int mlx5_cmd(struct bpf_raw_tracepoint_args *ctx)
{
	struct command c = {
		.error = ctx->args[6], .code = NO_CODE, .detail = ctx->args[1],
		.syndrome = ctx->args[5], .status = ctx->args[4],
	};

	bpf_probe_read_kernel_str(c.text, sizeof(c.text), (void *)ctx->args[0]);
	if (!c.error)
		c.error = -5; /* EIO: the status tells */
	command_failed(&c);
	return 0;
}

static __always_inline u32 owner_of(struct rdma_restrack_entry___owner *o)
{
	return BPF_CORE_READ(o, user) ? BPF_CORE_READ(o, task, tgid) : 0;
}

static __always_inline int on_event(u64 event)
{
	struct ib_event *e = (void *)event;
	u32 type = BPF_CORE_READ(e, event), number = 0;
	struct failure_key k = { .class = EVENT, .code = type };

	if (type > 31 || !((1U << type) & ERRORS))
		return 0;
	if (OF_QUEUE_PAIR(type)) {
		struct ib_qp *q = BPF_CORE_READ(e, element.qp);

		number = BPF_CORE_READ(q, qp_num);
		k.tgid = owner_of((void *)q + bpf_core_field_offset(struct ib_qp, res));
	} else if (type == CQ_ERR) {
		struct ib_cq *q = BPF_CORE_READ(e, element.cq);

		k.tgid = owner_of((void *)q + bpf_core_field_offset(struct ib_cq, res));
	} else if (type == PORT_ERR) {
		number = BPF_CORE_READ(e, element.port_num);
	}
	/* Of the device all processes hear. */
	if (k.tgid && !wanted(k.tgid))
		return 0;
	k.device = device_of(BPF_CORE_READ(e, device));
	note(&k, number, NULL, NULL);
	return 0;
}

/* ib_dispatch_event: the device and its ports; and those of a queue to its owner. */
ON_ENTRY_1(event_raised, event)
{
	return on_event(event);
}

/* rxe_cq_post. A completion is ib_uverbs_wc of the ABI, or ib_wc of the kernel, which
 * have what is read here in the same places. */
struct completion {
	u64 id;
	u32 status, opcode, vendor, length, immediate, number;
};

ON_ENTRY_2(completion_posted, queue, entry)
{
	struct completion c;
	u32 status = 0;

	if (bpf_probe_read_kernel(&status, sizeof(status), (void *)entry + 8) || !status)
		return 0;
	struct rxe_cq *q = (void *)queue;
	u32 tgid = owner_of((void *)q + bpf_core_field_offset(struct rxe_cq, ibcq) +
			    bpf_core_field_offset(struct ib_cq, res));

	if (tgid ? !wanted(tgid) : only_process)
		return 0;
	if (bpf_probe_read_kernel(&c, sizeof(c), (void *)entry))
		return 0;
	struct failure_key k = {
		.tgid = tgid, .class = COMPLETION, .code = status, .detail = c.vendor,
		.device = device_of(BPF_CORE_READ(q, ibcq.device)),
	};
	note(&k, BPF_CORE_READ(q, is_user) ? c.number : 0, NULL, NULL);
	return 0;
}
