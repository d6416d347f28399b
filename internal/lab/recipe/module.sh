#!/bin/sh
# Builds the module whose source is in a folder, with the compiler and the headers
# of a root. Runs in a mount namespace of its own, so the root stays as it is.
# $1 is the root, $2 the folder, $3 the kernel's release.
set -eu
inside=/usr/src/peerdirect # modules.sh made it
mount --bind "$2" "$1$inside"
mount --rbind /proc "$1/proc"
mount --rbind /dev "$1/dev"
exec chroot "$1" make -s -j2 -C "/lib/modules/$3/build" "M=$inside" modules
