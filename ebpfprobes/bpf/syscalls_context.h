/* What descriptors are, and which regions live on them. */
#ifndef PEERDIRECT_SYSCALLS_CONTEXT_H
#define PEERDIRECT_SYSCALLS_CONTEXT_H

#include "syscalls.h"

/* The descriptor's context, which is made if it is the first that is seen of it, or anew. */
static __always_inline struct context *context_of(struct descriptor *d, bool anew)
{
	struct context *c = bpf_map_lookup_elem(&contexts, d);

	if (c && !anew)
		return c;
	struct context now = { .id = bpf_ktime_get_ns() << 8 | (bpf_get_smp_processor_id() & 0xff) };
	if (anew)
		bpf_map_update_elem(&contexts, d, &now, BPF_ANY);
	else
		bpf_map_update_elem(&contexts, d, &now, BPF_NOEXIST);
	c = bpf_map_lookup_elem(&contexts, d);
	if (!c) {
		count(LOST_FLIGHTS);
		return NULL;
	}
	if (c->id == now.id) {
		struct sighting s = { .id = now.id, .descriptor = *d };
		/* Should the ring be full, Go finds it in the table. */
		bpf_ringbuf_output(&sightings, &s, sizeof(s), 0);
	}
	return c;
}

/* A region that is ended is taken out of the table before the call: afterwards its
 * handle may be another's already. */
static __always_inline void know_region(struct context *c, struct flight *f)
{
	struct region_key k = { .context = f->context, .handle = f->handle };
	struct region *r = bpf_map_lookup_elem(&regions, &k);

	if (!r)
		return;
	f->kind = r->kind;
	if (f->operation == REREGISTER && !f->same)
		return;
	f->length = r->length;
	f->iova = r->iova;
	f->lkey = r->lkey;
	f->rkey = r->rkey;
	if (f->operation == DEREGISTER && !bpf_map_delete_elem(&regions, &k)) {
		f->taken = 1;
		__sync_fetch_and_add(&c->live, -1);
	}
}

static __always_inline void keep_region(struct context *c, struct flight *f)
{
	struct region_key k = { .context = f->context, .handle = f->handle };
	struct region r = {
		.length = f->length, .iova = f->iova, .lkey = f->lkey, .rkey = f->rkey, .kind = f->kind,
	};

	if (!bpf_map_update_elem(&regions, &k, &r, BPF_NOEXIST))
		__sync_fetch_and_add(&c->live, 1);
	else if (bpf_map_update_elem(&regions, &k, &r, BPF_EXIST))
		count(LOST_REGIONS);
}

#endif
