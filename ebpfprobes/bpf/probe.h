/* One body, two ways to reach it: fentry and fexit where the kernel has them, which
 * cost least, and kprobe and kretprobe, which do not hold the module that they are
 * in. Go chooses, and gives each attachment its cookie. */
#ifndef PEERDIRECT_PROBE_H
#define PEERDIRECT_PROBE_H

#include "kernel.h"

/* Entry: the body takes the cookie and, of the arguments, as many as its name says;
 * fentry refuses to read arguments that a function has not. By fentry an argument that
 * points to a struct is typed, and READ costs one instruction instead of a call. */
#define READ(pointer, member)                                                   \
	(typed ? (pointer)->member : BPF_CORE_READ(pointer, member))

#define ON_ENTRY_0(name)                                                        \
	static __always_inline int name(void *ctx, u64 cookie, const bool typed);                 \
	SEC("fentry") int name##_fentry(u64 *ctx)                               \
	{ return name(ctx, bpf_get_attach_cookie(ctx), true); }                       \
	SEC("kprobe") int name##_kprobe(struct pt_regs *ctx)                    \
	{ return name(ctx, bpf_get_attach_cookie(ctx), false); }                       \
	static __always_inline int name(void *ctx, u64 cookie, const bool typed)

#define ON_ENTRY_1(name, a)                                                     \
	static __always_inline int name(void *ctx, u64 cookie, const bool typed, u64 a);          \
	SEC("fentry") int name##_fentry(u64 *ctx)                               \
	{ return name(ctx, bpf_get_attach_cookie(ctx), true, ctx[0]); }               \
	SEC("kprobe") int name##_kprobe(struct pt_regs *ctx)                    \
	{ return name(ctx, bpf_get_attach_cookie(ctx), false, PT_REGS_PARM1(ctx)); }   \
	static __always_inline int name(void *ctx, u64 cookie, const bool typed, u64 a)

#define ON_ENTRY_2(name, a, b)                                                  \
	static __always_inline int name(void *ctx, u64 cookie, const bool typed, u64 a, u64 b);   \
	SEC("fentry") int name##_fentry(u64 *ctx)                               \
	{ return name(ctx, bpf_get_attach_cookie(ctx), true, ctx[0], ctx[1]); }       \
	SEC("kprobe") int name##_kprobe(struct pt_regs *ctx)                    \
	{ return name(ctx, bpf_get_attach_cookie(ctx), false, PT_REGS_PARM1(ctx),      \
		      PT_REGS_PARM2(ctx)); }                                    \
	static __always_inline int name(void *ctx, u64 cookie, const bool typed, u64 a, u64 b)

#define ON_ENTRY_3(name, a, b, c)                                               \
	static __always_inline int name(void *ctx, u64 cookie, const bool typed, u64 a, u64 b, u64 c); \
	SEC("fentry") int name##_fentry(u64 *ctx)                               \
	{ return name(ctx, bpf_get_attach_cookie(ctx), true, ctx[0], ctx[1], ctx[2]); } \
	SEC("kprobe") int name##_kprobe(struct pt_regs *ctx)                    \
	{ return name(ctx, bpf_get_attach_cookie(ctx), false, PT_REGS_PARM1(ctx),      \
		      PT_REGS_PARM2(ctx), PT_REGS_PARM3(ctx)); }                \
	static __always_inline int name(void *ctx, u64 cookie, const bool typed, u64 a, u64 b, u64 c)

#define ON_ENTRY_4(name, a, b, c, d)                                            \
	static __always_inline int name(void *ctx, u64 cookie, const bool typed, u64 a, u64 b, u64 c, u64 d); \
	SEC("fentry") int name##_fentry(u64 *ctx)                               \
	{ return name(ctx, bpf_get_attach_cookie(ctx), true, ctx[0], ctx[1], ctx[2], ctx[3]); } \
	SEC("kprobe") int name##_kprobe(struct pt_regs *ctx)                    \
	{ return name(ctx, bpf_get_attach_cookie(ctx), false, PT_REGS_PARM1(ctx),      \
		      PT_REGS_PARM2(ctx), PT_REGS_PARM3(ctx), PT_REGS_PARM4(ctx)); } \
	static __always_inline int name(void *ctx, u64 cookie, const bool typed, u64 a, u64 b, u64 c, u64 d)

/* Return: the body takes the cookie and the value as it stands in the register. */
#define ON_RETURN(name, value)                                                  \
	static __always_inline int name(void *ctx, u64 cookie, u64 value);      \
	SEC("fexit") int name##_fexit(u64 *ctx)                                 \
	{                                                                       \
		u64 v = 0;                                                      \
		bpf_get_func_ret(ctx, &v);                                      \
		return name(ctx, bpf_get_attach_cookie(ctx), v);                \
	}                                                                       \
	SEC("kretprobe") int name##_kretprobe(struct pt_regs *ctx)              \
	{ return name(ctx, bpf_get_attach_cookie(ctx), PT_REGS_RC(ctx)); }      \
	static __always_inline int name(void *ctx, u64 cookie, u64 value)

#endif
