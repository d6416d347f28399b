#!/bin/sh
# Machine: ROOT
# Written by 'peerdirect doctor --fix', which has run nothing of it. Read it,
# take out what you do not want, then run it as root on that machine. It ends
# at the first command that fails.
set -e

# 1. fail, modules: ib_core: not loaded: the RDMA subsystem
# Remedy: load it; rdma-core's rules for udev load what a NIC needs when it
# appears
modprobe ib_core

# 2. fail, modules: ib_uverbs: not installed for kernel 6.12.0: through it
# programs open RDMA devices
# Remedy: install it: Ubuntu has some in linux-modules-extra-RELEASE, Amazon
# Linux 2023 in kernel-modules-extra, others come from their vendors; kernels
# for virtual machines may lack it (of Debian's take linux-image-amd64 or
# -arm64, not -cloud)
# No command does this.

# 3. warn, modules: rdma_ucm: not installed for kernel 6.12.0: through it
# programs connect by rdma_cm: addresses of RoCE, and all of iWARP
# Remedy: install it: Ubuntu has some in linux-modules-extra-RELEASE, Amazon
# Linux 2023 in kernel-modules-extra, others come from their vendors; kernels
# for virtual machines may lack it (of Debian's take linux-image-amd64 or
# -arm64, not -cloud)
# No command does this.

# 4. fail, memlock: process 7 (trainer): no memory may be pinned (memlock 0):
# no host memory can be registered, nor queues made where a library owns their
# memory, as mlx5's does
# Remedy: it is the service's: set LimitMEMLOCK=infinity in trainer.service,
# then restart it, which ends what runs in it
mkdir -p /etc/systemd/system/trainer.service.d
printf '[Service]\nLimitMEMLOCK=infinity\n' >/etc/systemd/system/trainer.service.d/50-memlock.conf
systemctl daemon-reload

# 5. warn, clock-source: clock source: hpet: each reading of time is a system
# call, and of a device where it is hpet or acpi_pm
# Remedy: take the processor's counter, if the kernel's log does not say that
# it is unstable; for good with clocksource=tsc on the kernel's command line
echo tsc >/sys/devices/system/clocksource/clocksource0/current_clocksource
