/* Marks of the project's own queues, at the probe site "complete" of package marker.
 * Included by completions.bpf.c, whose cells and failures it uses. */
#ifndef PEERDIRECT_MARKED_H
#define PEERDIRECT_MARKED_H

/* internal/marker.Mark, which its notes describe; Go attaches to no other description. */
struct mark {
	u64 device;	/* the name's address */
	u64 id;
	u64 ns;		/* from posting to the program's having the completion */
	u64 bytes;
	u32 qp, opcode, status, passed;
};

/* Names of devices by a hash: the kernel does not know one that is software in a
 * process, and the address of a name is used again. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct name);
} marked_devices SEC(".maps");

/* FNV-1a, of words. */
static __always_inline u64 hash_of(const struct name *n)
{
	u64 h = 0xcbf29ce484222325;

	for (u32 i = 0; i < NAME / sizeof(u64); i++)
		h = (h ^ ((const u64 *)n)[i]) * 0x100000001b3;
	return h;
}

SEC("uprobe") int marked(struct pt_regs *ctx)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct name n = {};
	struct mark m;

	if (!wanted(tgid))
		return 0;
	if (bpf_probe_read_user(&m, sizeof(m), (void *)PT_REGS_PARM1(ctx))) {
		count(LOST_FLIGHTS);
		return 0;
	}
	struct cell_key k = {
		.tgid = tgid, .device = NO_DEVICE, .wait = MARKED, .opcode = m.opcode,
		.size = m.bytes ? highest_bit(m.bytes) : 0,
	};
	if (bpf_probe_read_user_str(n.text, NAME, (void *)m.device) > 1) {
		k.context = hash_of(&n);
		keep_name(&marked_devices, &k.context, &n);
	}
	struct cell *c = cell_of(&k);
	if (c) {
		__sync_fetch_and_add(&c->bytes, m.bytes);
		if (m.status)
			__sync_fetch_and_add(&c->failed, 1);
		add(c, m.ns);
	}
	if (m.status)
		failed(k.context, 0, tgid, m.qp, m.status, m.opcode);
	return 0;
}

#endif
