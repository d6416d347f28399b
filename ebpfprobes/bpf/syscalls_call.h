/* What a call is about: its command or method, and where its answer will be. */
#ifndef PEERDIRECT_SYSCALLS_CALL_H
#define PEERDIRECT_SYSCALLS_CALL_H

#include "syscalls.h"

/* The core of a command: the same in write() and in ioctl()'s DEVICE_INVOKE_WRITE. */
static __always_inline bool read_command(struct flight *f, u32 number, const void *core, u64 answer)
{
	struct reg_mr reg;
	struct rereg_mr again;

	f->counts = 1;
	switch (number) {
	case REG_MR:
		if (bpf_probe_read_user(&reg, sizeof(reg), core))
			break;
		f->operation = REGISTER;
		f->kind = reg.access & ACCESS_ON_DEMAND ? ON_DEMAND : HOST;
		f->length = reg.length;
		f->iova = reg.hca_va;
		f->handle_at = answer ? answer : reg.response;
		f->lkey_at = f->handle_at + 4;
		f->rkey_at = f->handle_at + 8;
		return true;
	case REREG_MR:
		if (bpf_probe_read_user(&again, sizeof(again), core))
			break;
		f->operation = REREGISTER;
		f->handle = again.handle;
		f->length = again.length;
		f->iova = again.hca_va;
		f->same = !(again.flags & REREG_TRANSLATION);
		f->lkey_at = answer ? answer : again.response;
		f->rkey_at = f->lkey_at + 4;
		return true;
	case DEREG_MR:
		if (bpf_probe_read_user(&f->handle, sizeof(f->handle), core))
			break;
		f->operation = DEREGISTER;
		return true;
	}
	count(LOST_FLIGHTS); /* not in memory: nothing is known of it */
	return false;
}

/* What a method's attributes are: the number of each, none where it has not. */
struct method {
	u16 handle, length, iova, access, fd, lkey, rkey;
	u8 operation, kind;
};
#define NONE 0xffff

static __always_inline bool method_of(struct header *h, struct method *m)
{
	*m = (struct method){ NONE, NONE, NONE, NONE, NONE, NONE, NONE, REGISTER, UNKNOWN };
	if (h->object == OBJECT_MR && h->method == MR_REG_DMABUF) {
		*m = (struct method){ BUFFER_HANDLE, BUFFER_LENGTH, BUFFER_IOVA, BUFFER_ACCESS,
				      BUFFER_FD, BUFFER_LKEY, BUFFER_RKEY, REGISTER, DMA_BUF };
		return true;
	}
	if (h->object == OBJECT_MR && h->method == MR_REG) {
		*m = (struct method){ REGION_HANDLE, REGION_LENGTH, REGION_IOVA, REGION_ACCESS,
				      REGION_FD, REGION_LKEY, REGION_RKEY, REGISTER, HOST };
		return true;
	}
	if (h->object == OBJECT_MR && h->method == MR_DESTROY) {
		m->handle = 0;
		m->operation = DEREGISTER;
		return true;
	}
	if (h->object != OBJECT_DEVX_UMEM || h->driver != DRIVER_MLX5)
		return false;
	m->handle = UMEM_HANDLE;
	m->kind = DEVX;
	if (h->method == UMEM_REG) {
		m->length = UMEM_LENGTH;
		m->iova = UMEM_ADDRESS;
		return true;
	}
	m->operation = DEREGISTER;
	return h->method == UMEM_DEREG;
}

static __always_inline void take_attributes(struct flight *f, struct scratch *s, u32 n, u64 at, struct method *m)
{
	for (u32 i = 0; i < ATTRIBUTES; i++) {
		if (i >= n)
			break;
		struct attribute *a = &s->attributes[i];
		u64 value = a->length == 4 ? (u32)a->data : a->data;

		if (a->id == m->handle) {
			f->handle = value;
			f->handle_at = at + i * sizeof(*a) + offsetof(struct attribute, data);
		} else if (a->id == m->length) {
			f->length = value;
		} else if (a->id == m->iova) {
			f->iova = value;
		} else if (a->id == m->access) {
			if (value & ACCESS_ON_DEMAND && f->kind == HOST)
				f->kind = ON_DEMAND;
		} else if (a->id == m->fd) {
			f->buffer = value;
			f->kind = DMA_BUF;
		} else if (a->id == m->lkey) {
			f->lkey_at = a->data;
		} else if (a->id == m->rkey) {
			f->rkey_at = a->data;
		}
	}
}

/* DEVICE_INVOKE_WRITE: a command of write() in attributes. */
static __always_inline bool take_command(struct flight *f, struct scratch *s, u32 n, u64 at)
{
	u64 core = 0, answer = 0;
	u32 number = ~0;

	for (u32 i = 0; i < ATTRIBUTES; i++) {
		if (i >= n)
			break;
		struct attribute *a = &s->attributes[i];

		if (a->id == WRITE_CORE_IN)
			core = a->length <= sizeof(a->data) ?
			       at + i * sizeof(*a) + offsetof(struct attribute, data) : a->data;
		else if (a->id == WRITE_CORE_OUT)
			answer = a->data;
		else if (a->id == WRITE_COMMAND)
			number = a->data;
	}
	f->opens = number == GET_CONTEXT;
	if (number != REG_MR && number != REREG_MR && number != DEREG_MR)
		return true;
	return read_command(f, number, (void *)core, answer);
}

#endif
