/* What a process's stack is found by: its registers and the stack's innermost part, to
 * be unwound outside; and the chain of frame pointers, as far as there is one. */
#ifndef PEERDIRECT_SNAPSHOT_H
#define PEERDIRECT_SNAPSHOT_H

#include "process.h"

#define STACK 4096
#define PIECE 512
#define REGISTERS 34	/* of the larger architecture, arm64 */
#define FRAMES 32

struct snapshot {
	u64 process;		/* process_began() */
	u32 bytes;		/* of stack */
	u32 frames;		/* of chain */
	u64 registers[REGISTERS];
	u64 chain[FRAMES];
	u8 stack[STACK];
};

static __always_inline void take_snapshot(void *ctx, struct snapshot *s)
{
	s->process = process_began();
	s->bytes = s->frames = 0;
	/* Of a system call the kernel keeps all registers on entry. */
#ifdef __TARGET_ARCH_arm64
	struct user_pt_regs *r = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
#else
	struct pt_regs *r = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
#endif
	__builtin_memset(s->registers, 0, sizeof(s->registers));
	bpf_probe_read_kernel(s->registers, sizeof(*r), r);
#ifdef __TARGET_ARCH_arm64
	u64 sp = s->registers[31];
#else
	u64 sp = s->registers[19];
#endif
	long n = bpf_get_stack(ctx, s->chain, sizeof(s->chain), BPF_F_USER_STACK);
	if (n > 0)
		s->frames = n / sizeof(u64);
	/* In pieces: the stack may end before. */
	for (u32 i = 0; i < STACK / PIECE; i++) {
		if (bpf_probe_read_user(s->stack + i * PIECE, PIECE, (void *)(sp + i * PIECE)))
			break;
		s->bytes = (i + 1) * PIECE;
	}
}

#endif
