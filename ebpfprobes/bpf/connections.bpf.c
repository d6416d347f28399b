/* Queue pairs: who makes them, takes them from state to state and ends them. */
#include "resources.h"
#include "generation.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Kinds of types have to agree: what they hold does not. */
enum ib_qp_state { IB_QPS_RESET };
enum ib_mtu { IB_MTU_256 = 1 };

union ib_gid {
	u8 raw[16];
};

struct ib_global_route {
	union ib_gid dgid;
	u8 sgid_index;
};

struct rdma_ah_attr {
	struct ib_global_route grh;
	u32 port_num;
	u8 ah_flags;
};

struct ib_qp_attr {
	enum ib_qp_state qp_state;
	enum ib_qp_state cur_qp_state;
	enum ib_mtu path_mtu;
	u32 dest_qp_num;
	struct rdma_ah_attr ah_attr;
};

#pragma clang attribute pop

enum change { CREATED, MODIFIED, DESTROYED };

/* enum ib_qp_attr_mask */
#define MASK_STATE (1 << 0)
#define MASK_CUR_STATE (1 << 1)
#define MASK_AV (1 << 7)
#define MASK_PATH_MTU (1 << 8)
#define MASK_DEST_QPN (1 << 20)
#define WITH_GID 1 /* of ah_flags: IB_AH_GRH */
#define NO_STATE 0xff

/* A live queue pair. What a session has not seen it do is unknown. */
struct pair {
	u64 born;		/* 0: it is older than the session */
	u32 tgid, device;
	u32 number, dest;
	u32 changes;
	u8 type, state;
	u8 has_dest, has_gid;
	u8 gid[16];
	u8 sgid_index, mtu, kernel, port;
	u8 comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 17);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64); /* the kernel's address of ib_qp */
	__type(value, struct pair);
} pairs SEC(".maps");

/* A thread's change in flight. */
struct flight {
	u64 began, qp;
	u32 mask, dest;
	u32 generation;		/* in which it began */
	u8 active, state, current, mtu;
	u8 has_gid, sgid_index, port, pad[5];
	u8 gid[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flight);
} flights SEC(".maps");

struct transition_key {
	u32 tgid, device;
	s32 error;
	u8 change, type, from, to;
};

struct transition {
	u64 count, sum, longest;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct transition_key);
	__type(value, struct transition);
} transitions SEC(".maps");

struct event {
	u64 at, took;		/* CLOCK_MONOTONIC, at the end; took of changes */
	u64 born;
	u32 tgid, tid, device;
	s32 error;
	u32 mask;		/* enum ib_qp_attr_mask: what was set */
	u8 change, from, to, pad;
	struct pair pair;	/* after it */
	u8 name[NAME];		/* of the device */
	u8 comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

const struct event *unused_event __attribute__((unused));
const enum change *unused_change __attribute__((unused));

static __always_inline void tally(const struct transition_key *k, u64 took)
{
	struct transition *t = bpf_map_lookup_elem(&transitions, k);

	if (!t) {
		struct transition none = {};

		bpf_map_update_elem(&transitions, k, &none, BPF_NOEXIST);
		t = bpf_map_lookup_elem(&transitions, k);
		if (!t) {
			count(LOST_CELLS);
			return;
		}
		note_process(k->tgid);
	}
	__sync_fetch_and_add(&t->count, 1);
	__sync_fetch_and_add(&t->sum, took);
	if (took > t->longest)
		t->longest = took; /* two at once may lose the longer one */
}

static __always_inline void tell(struct transition_key *k, const struct pair *p, u64 took, u32 mask)
{
	u64 id = bpf_get_current_pid_tgid();

	k->tgid = id >> 32;
	k->device = p->device;
	k->type = p->type;
	tally(k, took);
	if (!want_events)
		return;
	struct event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e) {
		count(LOST_EVENTS);
		return;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->at = bpf_ktime_get_ns();
	e->took = took;
	e->born = p->born;
	e->tgid = id >> 32;
	e->tid = id;
	e->device = p->device;
	e->error = k->error;
	e->mask = mask;
	e->change = k->change;
	e->from = k->from;
	e->to = k->to;
	e->pair = *p;
	struct name *n = bpf_map_lookup_elem(&devices, &p->device);
	if (n)
		__builtin_memcpy(e->name, n->text, NAME);
	bpf_get_current_comm(e->comm, sizeof(e->comm));
	bpf_ringbuf_submit(e, 0);
}

static __always_inline void describe(struct pair *p, struct ib_qp *q)
{
	struct rdma_restrack_entry___owner *o = (void *)q + bpf_core_field_offset(struct ib_qp, res);

	p->tgid = bpf_get_current_pid_tgid() >> 32;
	p->number = BPF_CORE_READ(q, qp_num);
	p->type = BPF_CORE_READ(q, qp_type);
	p->device = device_of(BPF_CORE_READ(q, device));
	p->kernel = !BPF_CORE_READ(o, user);
	p->state = NO_STATE;
	if (p->kernel) {
		p->tgid = 0;
		bpf_probe_read_kernel_str(p->comm, sizeof(p->comm), BPF_CORE_READ(o, kern_name));
	} else {
		bpf_get_current_comm(p->comm, sizeof(p->comm));
	}
}

static __always_inline struct ib_qp *pair_of(u64 entry)
{
	struct rdma_restrack_entry *e = (void *)entry;

	if (!is_type(BPF_CORE_READ(e, type), RDMA_RESTRACK_QP))
		return NULL;
	return (void *)e - bpf_core_field_offset(struct ib_qp, res);
}

ON_ENTRY_1(created, entry)
{
	struct ib_qp *q = pair_of(entry);

	if (!q || !wanted(bpf_get_current_pid_tgid() >> 32))
		return 0;
	struct pair p = {};
	struct transition_key k = { .change = CREATED, .from = NO_STATE, .to = IB_QPS_RESET };
	u64 key = (u64)q;

	describe(&p, q);
	p.born = bpf_ktime_get_ns();
	p.state = IB_QPS_RESET;
	if (bpf_map_update_elem(&pairs, &key, &p, BPF_ANY))
		count(LOST_REGIONS);
	tell(&k, &p, 0, 0);
	return 0;
}

ON_ENTRY_1(destroyed, entry)
{
	struct ib_qp *q = pair_of(entry);
	u64 key = (u64)q;

	if (!q)
		return 0;
	struct pair *known = bpf_map_lookup_elem(&pairs, &key), p = {};
	struct transition_key k = { .change = DESTROYED, .to = NO_STATE };

	if (known) {
		p = *known;
		device_of(BPF_CORE_READ(q, device)); /* its name may be another by now */
	}
	bpf_map_delete_elem(&pairs, &key);
	if (!wanted(bpf_get_current_pid_tgid() >> 32))
		return 0;
	if (!known)
		describe(&p, q);
	k.from = p.state;
	tell(&k, &p, 0, 0);
	return 0;
}

ON_ENTRY_3(modify, qp, attributes, mask)
{
	if (!wanted(bpf_get_current_pid_tgid() >> 32))
		return 0;
	struct flight *f = bpf_task_storage_get(&flights, bpf_get_current_task_btf(), NULL,
						BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!f) {
		count(LOST_FLIGHTS);
		return 0;
	}
	struct ib_qp_attr *a = (void *)attributes;

	if (f->active)
		count(LOST_FLIGHTS); /* a change whose end was lost */
	__builtin_memset(f, 0, sizeof(*f));
	f->active = 1;
	f->generation = generation;
	f->qp = qp;
	f->mask = mask;
	f->state = BPF_CORE_READ(a, qp_state);
	f->current = BPF_CORE_READ(a, cur_qp_state);
	f->mtu = BPF_CORE_READ(a, path_mtu);
	f->dest = BPF_CORE_READ(a, dest_qp_num);
	f->port = BPF_CORE_READ(a, ah_attr.port_num);
	f->has_gid = mask & MASK_AV && BPF_CORE_READ(a, ah_attr.ah_flags) & WITH_GID;
	f->sgid_index = BPF_CORE_READ(a, ah_attr.grh.sgid_index);
	bpf_core_read(f->gid, sizeof(f->gid), &a->ah_attr.grh.dgid);
	f->began = bpf_ktime_get_ns();
	return 0;
}

ON_RETURN(modified, value)
{
	struct flight *f = bpf_task_storage_get(&flights, bpf_get_current_task_btf(), NULL, 0);

	if (!f || !f->active)
		return 0;
	u64 took = bpf_ktime_get_ns() - f->began, key = f->qp;
	struct pair *known = bpf_map_lookup_elem(&pairs, &key), p = {};
	struct transition_key k = { .change = MODIFIED, .error = (s32)value < 0 ? (s32)value : 0 };

	f->active = 0;
	if (f->generation != generation) {
		count(LOST_FLIGHTS);
		return 0;
	}
	if (known) {
		p = *known;
		device_of(BPF_CORE_READ((struct ib_qp *)key, device));
	} else {
		describe(&p, (void *)key);
	}
	k.from = p.state;
	if (k.from == NO_STATE && f->mask & MASK_CUR_STATE)
		k.from = f->current;
	k.to = f->mask & MASK_STATE ? f->state : k.from;
	if (!k.error) {
		p.state = k.to;
		p.changes++;
		if (f->mask & MASK_PATH_MTU)
			p.mtu = f->mtu;
		if (f->mask & MASK_DEST_QPN) {
			p.dest = f->dest;
			p.has_dest = 1;
		}
		if (f->mask & MASK_AV) {
			p.port = f->port;
			p.sgid_index = f->sgid_index;
			p.has_gid = f->has_gid;
			__builtin_memcpy(p.gid, f->gid, sizeof(p.gid));
		}
		if (bpf_map_update_elem(&pairs, &key, &p, BPF_ANY))
			count(LOST_REGIONS);
	}
	tell(&k, &p, took, f->mask);
	return 0;
}
