/* What tells a process from another that has its number later (Linux 6.1 to 7.3:
 * include/linux/sched.h). */
#ifndef PEERDIRECT_PROCESS_H
#define PEERDIRECT_PROCESS_H

#include "kernel.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct {
	int tgid;
	struct task_struct *group_leader;
	u64 start_boottime;
};

#pragma clang attribute pop

/* When a process began, of CLOCK_BOOTTIME in ns (/proc/PID/stat shows it in ticks). */
static __always_inline u64 process_began(void)
{
	struct task_struct *t = (void *)bpf_get_current_task();

	return BPF_CORE_READ(t, group_leader, start_boottime);
}

#endif
