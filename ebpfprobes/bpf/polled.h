/* The probes in providers' libraries. Included by completions.bpf.c, whose cells and
 * threads they use. */
#ifndef PEERDIRECT_POLLED_H
#define PEERDIRECT_POLLED_H

/* What the probes in libraries read: infiniband/verbs.h of rdma-core. The mutex in
 * these structures is larger on arm64. */
#ifdef __TARGET_ARCH_arm64
#define MUTEX 8
#else
#define MUTEX 0
#endif
#define QP_CONTEXT 0
#define QP_SEND_CQ 24
#define QP_EX_WR_ID (168 + MUTEX)
#define QP_EX_WR_FLAGS (176 + MUTEX)
#define CQ_CONTEXT 0
#define CQ_EX_STATUS (132 + MUTEX)
#define SIGNALED 2

struct send_wr {
	u64 id, next, pieces;
	s32 n;
	u32 opcode, flags;
};

struct completion {
	u64 id;
	u32 status, opcode, vendor, bytes, immediate, qp, source, flags;
	u8 rest[8];
};

struct piece {
	u64 address;
	u32 length, key;
};

/* Completions in error, by what the device said. */
struct failure_key {
	u64 context, queue;
	u32 tgid, qp;	/* qp 0: not told */
	u32 status;	/* enum ibv_wc_status */
	u8 opcode, pad[3];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct failure_key);
	__type(value, u64);
} failures SEC(".maps");

/* Work requests in flight, by the queue that their completion comes to. */
struct flight_key {
	u64 cq, id;
	u32 tgid, pad;
};

struct work {
	u64 at;
	u32 bytes;
	u32 window;	/* in which it was posted */
	u8 opcode, pad[7];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct flight_key);
	__type(value, struct work);
} flights SEC(".maps");

/* Queue pairs that ask for a completion by a flag at each work request: of these, work
 * without it completes silently. Others complete all their work. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, u8);
} signaling SEC(".maps");

u32 window = 0;	/* counts the windows; work of another is stale */
u64 posts = 0;	/* that were seen */
u64 unsignaled = 0;

/* The thread, with what it did in this window alone: what followed was not seen. */
static __always_inline struct thread *polling(void)
{
	struct thread *t = thread_of_now();

	if (t && t->window != window) {
		t->window = window;
		t->cq = t->posted_cq = 0;
		t->taken = t->opcode_told = 0;
	}
	return t;
}

static __always_inline u64 user_word(u64 at)
{
	u64 v = 0;

	bpf_probe_read_user(&v, sizeof(v), (void *)at);
	return v;
}

static __always_inline u32 length_of(u64 pieces, s32 n)
{
	u32 length = 0;
	struct piece s;

	for (int i = 0; i < 8 && i < n; i++) {
		if (bpf_probe_read_user(&s, sizeof(s), (void *)(pieces + i * sizeof(s))))
			break;
		length += s.length;
	}
	return length;
}

/* Work that will complete, and tell so. */
static __always_inline bool completes(u64 qp, u32 flags)
{
	u8 yes = 1;

	if (flags & SIGNALED) {
		if (!bpf_map_lookup_elem(&signaling, &qp))
			bpf_map_update_elem(&signaling, &qp, &yes, BPF_ANY);
		return true;
	}
	return !bpf_map_lookup_elem(&signaling, &qp);
}

struct request {
	u64 qp, cq, id, now;
	u32 opcode, flags, bytes, pad;
};

/* Global, so that the verifier reads it once and not at each turn of a loop. */
__noinline int posted(const struct request *r)
{
	if (!r)
		return 0;
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct flight_key k = { .cq = r->cq, .id = r->id, .tgid = tgid };
	struct work w = { .at = r->now, .bytes = r->bytes, .window = window, .opcode = r->opcode };

	__sync_fetch_and_add(&posts, 1);
	if (!completes(r->qp, r->flags)) {
		__sync_fetch_and_add(&unsignaled, 1);
		return 0;
	}
	struct work *other = bpf_map_lookup_elem(&flights, &k);
	if (other && other->window == window) {
		struct cell_key ck = {
			.tgid = tgid, .context = user_word(r->qp + QP_CONTEXT), .queue = r->cq,
			.wait = POLLED, .opcode = r->opcode, .size = r->bytes ? highest_bit(r->bytes) : 0,
		};
		struct cell *c = cell_of(&ck);
		if (c)
			__sync_fetch_and_add(&c->repeated, 1);
		/* Which of the two a completion is of, nobody can tell: neither is timed. */
		w.at = 0;
	}
	if (bpf_map_update_elem(&flights, &k, &w, BPF_ANY))
		count(LOST_FLIGHTS);
	return 0;
}

#define CHAIN 32

SEC("uprobe") int post_send(struct pt_regs *ctx)
{
	u64 qp = PT_REGS_PARM1(ctx), at = PT_REGS_PARM2(ctx), now = bpf_ktime_get_ns();
	struct request r = { .qp = qp, .cq = user_word(qp + QP_SEND_CQ), .now = now };
	struct send_wr wr;

	for (int i = 0; i < CHAIN; i++) {
		if (!at)
			return 0;
		if (bpf_probe_read_user(&wr, sizeof(wr), (void *)at))
			break;
		r.id = wr.id;
		r.opcode = wr.opcode;
		r.flags = wr.flags;
		r.bytes = length_of(wr.pieces, wr.n);
		posted(&r);
		at = wr.next;
	}
	if (at)
		count(LOST_FLIGHTS); /* a longer chain, or memory that cannot be read now */
	return 0;
}

/* ibv_wr_send() and its like: the cookie is the opcode. The length follows by another
 * call of the same thread. */
SEC("uprobe") int build(struct pt_regs *ctx)
{
	u64 qp = PT_REGS_PARM1(ctx);
	struct request r = {
		.qp = qp, .cq = user_word(qp + QP_SEND_CQ), .id = user_word(qp + QP_EX_WR_ID),
		.opcode = bpf_get_attach_cookie(ctx), .flags = user_word(qp + QP_EX_WR_FLAGS), .now = bpf_ktime_get_ns(),
	};
	struct thread *t = polling();

	posted(&r);
	if (t) {
		t->posted_cq = r.cq;
		t->posted_id = r.id;
	}
	return 0;
}

static __always_inline void longer(u32 bytes)
{
	struct thread *t = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), NULL, 0);

	if (!t || t->window != window)
		return;
	struct flight_key k = { .cq = t->posted_cq, .id = t->posted_id, .tgid = bpf_get_current_pid_tgid() >> 32 };
	struct work *w = bpf_map_lookup_elem(&flights, &k);
	if (w)
		w->bytes += bytes;
}

SEC("uprobe") int set_sge(struct pt_regs *ctx)
{
	longer(PT_REGS_PARM4(ctx));
	return 0;
}

SEC("uprobe") int set_sge_list(struct pt_regs *ctx)
{
	longer(length_of(PT_REGS_PARM3(ctx), PT_REGS_PARM2(ctx)));
	return 0;
}

SEC("uprobe") int set_inline(struct pt_regs *ctx)
{
	longer(PT_REGS_PARM3(ctx));
	return 0;
}

static __always_inline u8 opcode_of(u32 wc)
{
	/* enum ibv_wc_opcode to enum ibv_wr_opcode. */
	switch (wc) {
	case 0: return 2;	/* send */
	case 1: return 0;	/* write */
	case 2: return 4;	/* read */
	case 3: return 5;	/* compare and swap */
	case 4: return 6;	/* fetch and add */
	case 5: return 8;	/* bind */
	case 6: return 7;	/* invalidate */
	case 7: return 10;	/* segmented send */
	case 128: case 129: return wc;
	}
	return UNKNOWN_OPCODE;
}

static __always_inline void failed(u64 context, u64 cq, u32 tgid, u32 qp, u32 status, u8 opcode)
{
	struct failure_key k = {
		.context = context, .queue = cq, .tgid = tgid, .qp = qp, .status = status, .opcode = opcode,
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

/* The program has a completion. */
struct done {
	u64 cq, id, now;
	u32 status, bytes;
	u32 qp;		/* 0: not told */
	u32 opcode;	/* UNKNOWN_OPCODE: not told */
};

__noinline int completed(const struct done *d)
{
	if (!d)
		return 0;
	u32 tgid = bpf_get_current_pid_tgid() >> 32, bytes = d->bytes;
	struct flight_key k = { .cq = d->cq, .id = d->id, .tgid = tgid };
	u8 opcode = d->opcode;
	u64 at = 0;

	if (opcode == UNKNOWN_OPCODE || !(opcode & RECEIVED)) {
		struct work *w = bpf_map_lookup_elem(&flights, &k);
		if (w && w->window == window) {
			at = w->at;
			opcode = w->opcode;
			bytes = w->bytes;
		}
		if (w)
			bpf_map_delete_elem(&flights, &k);
	}
	struct cell_key ck = {
		.tgid = tgid, .context = user_word(d->cq + CQ_CONTEXT), .queue = d->cq,
		.wait = POLLED, .opcode = opcode, .size = bytes ? highest_bit(bytes) : 0,
	};
	struct cell *c = cell_of(&ck);
	if (c) {
		__sync_fetch_and_add(&c->bytes, bytes);
		if (d->status)
			__sync_fetch_and_add(&c->failed, 1);
		if (at)
			add(c, d->now - at);
		else
			__sync_fetch_and_add(&c->untimed, 1);
	}
	if (d->status)
		failed(ck.context, d->cq, tgid, d->qp, d->status, opcode);
	return 0;
}

SEC("uprobe") int poll(struct pt_regs *ctx)
{
	struct thread *t = polling();

	if (!t)
		return 0;
	t->cq = PT_REGS_PARM1(ctx);
	t->completions = PT_REGS_PARM3(ctx);
	return 0;
}

SEC("uretprobe") int poll_end(struct pt_regs *ctx)
{
	s32 n = PT_REGS_RC(ctx);
	struct thread *t;
	struct completion c;

	if (n <= 0 || !(t = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), NULL, 0)) ||
	    t->window != window || !t->cq)
		return 0;
	struct done d = { .cq = t->cq, .now = bpf_ktime_get_ns() };
	u64 at = t->completions;
	t->cq = 0;
	for (int i = 0; i < CHAIN && i < n; i++) {
		if (bpf_probe_read_user(&c, sizeof(c), (void *)(at + i * sizeof(c)))) {
			count(LOST_FLIGHTS);
			break;
		}
		/* In error, only the id, the status and the queue pair are told. */
		d.id = c.id;
		d.status = c.status;
		d.opcode = c.status ? UNKNOWN_OPCODE : opcode_of(c.opcode);
		d.bytes = c.status ? 0 : c.bytes;
		d.qp = c.qp;
		completed(&d);
	}
	if (n > CHAIN)
		count(LOST_FLIGHTS);
	return 0;
}

/* Extended queues: next_poll and end_poll are called only with a completion at hand, the
 * one that the structure tells of. When next_poll finds no other, it stays at hand. */
static __always_inline struct thread *take(struct pt_regs *ctx, u64 cq)
{
	struct done d = { .cq = cq, .now = bpf_ktime_get_ns(), .opcode = UNKNOWN_OPCODE };
	struct {
		u32 status;
		u64 id;
	} __attribute__((packed)) told;
	struct thread *t = polling();

	if (!t || (t->cq == cq && t->taken) ||
	    bpf_probe_read_user(&told, sizeof(told), (void *)(cq + CQ_EX_STATUS)))
		return t;
	if (t->opcode_told && !told.status)
		d.opcode = opcode_of(t->opcode);
	t->opcode_told = 0;
	d.id = told.id;
	d.status = told.status;
	completed(&d);
	return t;
}

SEC("uprobe") int next(struct pt_regs *ctx)
{
	u64 cq = PT_REGS_PARM1(ctx);
	struct thread *t = take(ctx, cq);

	if (t) {
		t->cq = cq;
		t->taken = 1;
	}
	return 0;
}

SEC("uretprobe") int next_end(struct pt_regs *ctx)
{
	struct thread *t = polling();

	if (t && !(s32)PT_REGS_RC(ctx))
		t->taken = 0;
	return 0;
}

SEC("uprobe") int end(struct pt_regs *ctx)
{
	struct thread *t = take(ctx, PT_REGS_PARM1(ctx));

	if (t)
		t->cq = t->taken = 0;
	return 0;
}

/* The program asks what the completion at hand is of. */
SEC("uretprobe") int opcode_end(struct pt_regs *ctx)
{
	struct thread *t = polling();

	if (!t)
		return 0;
	t->opcode = PT_REGS_RC(ctx);
	t->opcode_told = 1;
	return 0;
}

#endif
