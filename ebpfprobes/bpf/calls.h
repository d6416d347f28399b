/* The system calls that register: told by what the process gives to the uverbs device. */
#ifndef PEERDIRECT_CALLS_H
#define PEERDIRECT_CALLS_H

#include "flight.h"
#include "uapi.h"

#define NO_OPERATION 0xff

static __always_inline u8 written(u32 command)
{
	switch (command) {
	case REG_MR:
		return REGISTER;
	case REREG_MR:
		return REREGISTER;
	case DEREG_MR:
		return DEREGISTER;
	}
	return NO_OPERATION;
}

/* A file operation begins. Of what is not followed the end is not to be taken for that
 * of a call whose own was missed. */
static __always_inline void call_begins(u32 tgid, u8 operation, bool follow)
{
	if (!follow) {
		struct flight *f = flight_of_now();

		if (f)
			lose(f);
		return;
	}
	struct flight *f = begin(tgid, bpf_ktime_get_ns());
	if (!f)
		return;
	f->called = 1;
	if (operation != NO_OPERATION) {
		f->known = 1;
		f->operation = operation;
	}
}

/* write(): posting and polling of software devices come this way too, so that nothing is
 * done for them. */
ON_ENTRY_3(write_call, file, buffer, size)
{
	u32 command, tgid = tgid_of_now();
	u8 operation = NO_OPERATION;

	if (!wanted(tgid))
		return 0;
	if (size >= 8 && !bpf_probe_read_user(&command, sizeof(command), (void *)buffer))
		operation = written(command);
	call_begins(tgid, operation, operation != NO_OPERATION);
	return 0;
}

/* ioctl(): the command of DEVICE_INVOKE_WRITE, which has five attributes at most.
 * libibverbs names it first. */
__attribute__((noinline)) u32 find_command(u64 attributes, u32 n)
{
	struct attribute a;

	for (u32 i = 0; i < 5 && i < n; i++) {
		if (bpf_probe_read_user(&a, sizeof(a), (void *)(attributes + i * sizeof(a))))
			break;
		if (a.id == WRITE_COMMAND)
			return a.data;
	}
	return 0;
}

ON_ENTRY_3(ioctl_call, file, command, argument)
{
	struct {
		struct header header;
		struct attribute first;
	} call;
	u32 tgid = tgid_of_now();
	u8 operation = NO_OPERATION;
	bool follow = false;

	if (!wanted(tgid))
		return 0;
	call.first.id = 0;
	/* One without attributes may end where its memory does. */
	if ((u32)command == RDMA_VERBS_IOCTL &&
	    (!bpf_probe_read_user(&call, sizeof(call), (void *)argument) ||
	     !bpf_probe_read_user(&call.header, sizeof(call.header), (void *)argument))) {
		u16 method = call.header.method;

		switch (call.header.object) {
		case OBJECT_DEVICE:
			if (method == DEVICE_INVOKE_WRITE)
				operation = written(call.first.id == WRITE_COMMAND ? call.first.data :
						    find_command(argument + sizeof(call.header),
								 call.header.attributes));
			break;
		case OBJECT_MR:
			if (method == MR_DESTROY)
				operation = DEREGISTER;
			else if (method == MR_REG_DMABUF || method == MR_REG)
				operation = REGISTER;
			break;
		default: /* an object of the driver's own (DEVX): its handler tells */
			follow = call.header.object & 0x1000;
		}
	}
	call_begins(tgid, operation, follow || operation != NO_OPERATION);
	return 0;
}

#endif
