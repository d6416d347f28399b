#!/bin/sh
# Machine: node7.tgz
# Written by 'peerdirect doctor --fix', which has run nothing of it. Read it,
# take out what you do not want, then run it as root on that machine. It ends
# at the first command that fails.
set -e

# 1. fail, modules: ib_uverbs: not loaded: through it programs open RDMA
# devices
# Remedy: load it; rdma-core's rules for udev load what a NIC needs when it
# appears
modprobe ib_uverbs

# 2. warn, memlock: process 7: 8 MiB of host memory may be pinned
# Remedy: raise it
# Done above: modprobe ib_uverbs
prlimit --pid 7 --memlock=unlimited:unlimited

# 3. warn, gids: evil?[2J?# 0: a name with a line break?rm -rf /
# Remedy: rename it?reboot
rdma dev set 'evil?[2J?# 0; reboot' name good
