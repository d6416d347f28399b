/* Completions: how long they wait.
 *
 * Of queues with events: from the device's interrupt to the return of the read that
 * brings the event to the program. Of queues that a program polls, which the kernel sees
 * nothing of: from posting a work request to the program's having its completion, by
 * probes in the provider's library, in windows of time and in one process. */
#include "names.h"
#include "generation.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Linux 6.1 to 7.3: include/rdma/ib_verbs.h, drivers/infiniband/core/uverbs.h. */
struct ib_uobject {
	u64 user_handle;
};

struct ib_uevent_object {
	struct ib_uobject uobject;
};

struct ib_ucq_object {
	struct ib_uevent_object uevent;
};

struct ib_cq {
	struct ib_device *device;
	struct ib_ucq_object *uobject;
	struct rdma_restrack_entry res;
};

struct ib_uverbs_event_queue {
	int is_closed;
};

struct ib_uverbs_completion_event_file {
	struct ib_uverbs_event_queue ev_queue;
};

struct file___events {
	void *private_data;
};

#pragma clang attribute pop

enum wait {
	WOKEN,		/* interrupt to the return of a read that slept for it */
	COLLECTED,	/* interrupt to the return of a read that began later */
	POLLED,		/* post to the program's having the completion */
	MARKED,		/* the same, as a program of this project's tells */
};

#define UNKNOWN_OPCODE 0xff
#define RECEIVED 0x80	/* bit of enum ibv_wc_opcode */

struct cell_key {
	u32 tgid;
	u32 device;	/* ib_device.index, of events */
	u64 context;	/* the program's struct ibv_context, of polling; of marks, the device's hash */
	u64 queue;	/* its struct ibv_cq */
	u32 number;	/* the kernel's of the queue, of events */
	u8 wait, opcode, size, pad;
};

struct cell {
	u64 count, failed, bytes;
	u64 untimed;	/* completions whose post was not seen */
	u64 repeated;	/* posts with the id of another in flight: not timed */
	u64 sum, longest;
	u64 slots[SLOTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct cell_key);
	__type(value, struct cell);
} cells SEC(".maps");

/* Events that were raised and not yet read, by queue: more than one at a time is rare,
 * since a queue has to be armed again for each. */
#define DEEP 8

struct pending_key {
	u64 channel;	/* the kernel's address of the event queue */
	u64 handle;	/* as the program named its queue */
};

struct pending {
	u32 first, next;
	u32 device, number;
	u64 at[DEEP];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct pending_key);
	__type(value, struct pending);
} pending SEC(".maps");

/* A thread's calls. */
struct thread {
	u64 entered, channel, buffer;	/* in a read of events */
	u32 generation;			/* in which it began */
	u32 window;			/* of which all below is */
	u64 cq, completions;		/* in a poll */
	u8 taken;			/* of an extended queue: the completion at hand was counted */
	u64 posted_cq, posted_id;	/* what it builds */
	u32 opcode;			/* of the completion at hand, if told */
	u8 opcode_told;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

const enum wait *unused_wait __attribute__((unused));
const enum counter *unused_counter __attribute__((unused));

static const struct cell empty = {};

static __always_inline struct thread *thread_of_now(void)
{
	return bpf_task_storage_get(&threads, bpf_get_current_task_btf(), NULL,
				    BPF_LOCAL_STORAGE_GET_F_CREATE);
}

static __always_inline struct cell *cell_of(struct cell_key *k)
{
	struct cell *c = bpf_map_lookup_elem(&cells, k);

	if (c)
		return c;
	bpf_map_update_elem(&cells, k, &empty, BPF_NOEXIST);
	c = bpf_map_lookup_elem(&cells, k);
	if (!c) {
		count(LOST_CELLS);
		return NULL;
	}
	note_process(k->tgid);
	return c;
}

static __always_inline void add(struct cell *c, u64 took)
{
	u64 slot = slot_of(took);

	barrier_var(slot); /* 6.1's verifier follows the check of one register only */
	if (slot >= SLOTS)
		return;
	__sync_fetch_and_add(&c->slots[slot], 1);
	__sync_fetch_and_add(&c->count, 1);
	__sync_fetch_and_add(&c->sum, took);
	if (took > c->longest)
		c->longest = took; /* two at once may lose the longer one */
}

/* ib_uverbs_comp_handler: in the interrupt, or what the driver puts in its place. */
ON_ENTRY_2(raised, cq, channel)
{
	struct ib_cq *c = (void *)cq;
	struct ib_ucq_object *u = BPF_CORE_READ(c, uobject);
	struct pending_key k = { .channel = channel };
	struct pending fresh = {}, *p;

	if (!channel || !u)
		return 0;
	k.handle = BPF_CORE_READ(u, uevent.uobject.user_handle);
	u32 number = BPF_CORE_READ(c, res.id);
	p = bpf_map_lookup_elem(&pending, &k);
	if (p && p->number != number) {
		/* Of a queue that has ended: channel and handle are used again. */
		bpf_map_delete_elem(&pending, &k);
		p = NULL;
	}
	if (!p) {
		struct ib_device *d = BPF_CORE_READ(c, device);

		fresh.device = BPF_CORE_READ(d, index);
		fresh.number = number;
		note_device(fresh.device, d);
		bpf_map_update_elem(&pending, &k, &fresh, BPF_NOEXIST);
		p = bpf_map_lookup_elem(&pending, &k);
		if (!p) {
			count(LOST_FLIGHTS);
			return 0;
		}
	}
	/* A queue's handler does not run twice at a time. */
	p->at[p->next & (DEEP - 1)] = bpf_ktime_get_ns();
	p->next++;
	return 0;
}

ON_ENTRY_2(reading, file, buffer)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct ib_uverbs_completion_event_file *f;
	struct thread *t;

	if (!wanted(tgid) || !(t = thread_of_now()))
		return 0;
	f = BPF_CORE_READ((struct file___events *)file, private_data);
	t->entered = bpf_ktime_get_ns();
	t->generation = generation;
	t->channel = (u64)f + bpf_core_field_offset(f->ev_queue);
	t->buffer = buffer;
	return 0;
}

ON_RETURN(read_end, value)
{
	struct thread *t = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), NULL, 0);
	struct pending_key k = {};

	if (!t || !t->entered)
		return 0;
	u64 entered = t->entered;
	t->entered = 0;
	if (t->generation != generation)
		return 0; /* a read that began before programs were detached */
	k.channel = t->channel;
	/* struct ib_uverbs_comp_event_desc: the handle alone. */
	if (value != sizeof(k.handle) || bpf_probe_read_user(&k.handle, sizeof(k.handle), (void *)t->buffer))
		return 0;
	struct pending *p = bpf_map_lookup_elem(&pending, &k);
	if (!p || p->first == p->next)
		return 0; /* raised before the session began */
	u32 first = p->first++;
	if (p->next - first > DEEP) {
		count(LOST_FLIGHTS);
		return 0;
	}
	u64 at = p->at[first & (DEEP - 1)];
	struct cell_key ck = {
		.tgid = bpf_get_current_pid_tgid() >> 32, .device = p->device, .number = p->number,
		.queue = k.handle, .wait = entered <= at ? WOKEN : COLLECTED, .opcode = UNKNOWN_OPCODE,
	};
	struct cell *c = cell_of(&ck);
	if (c)
		add(c, bpf_ktime_get_ns() - at);
	return 0;
}

#include "polled.h"
#include "marked.h"
