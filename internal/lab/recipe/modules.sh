#!/bin/sh
# Builds the RDMA drivers that Debian's kernels leave out, efa and siw, for the
# kernel in the root that mmdebstrap is making, and lays aside what the guest
# needs early. mmdebstrap runs this as a customize hook: $1 is the root, apt
# works for the root through MMDEBSTRAP_APT_CONFIG, and /proc is mounted inside.
#
# LAB_KERNEL names the kernel's series, "7.3": Debian ships its source as
# linux-source-7.3.
set -eu
root=$1
say() { echo "peerdirect: $*" >&2; }

set -- "$root"/lib/modules/*
[ $# = 1 ] && [ -d "$1/kernel" ] || { say "expected one kernel in the root, found: $*"; exit 1; }
release=${1##*/}
case $release in
"$LAB_KERNEL".*) ;;
*) say "the mirror now has linux $release where $LAB_KERNEL was expected"; exit 1 ;;
esac

work=$root/usr/src/peerdirect
mkdir -p "$work"
say "fetching the source of linux $LAB_KERNEL"
(cd "$work" && APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get download -q "linux-source-$LAB_KERNEL")

say "unpacking efa and siw"
# The archive inside the package is named after the series and stored as xz;
# only three paths of its 1.5 GB are kept.
for deb in "$work"/linux-source-*.deb; do
	dpkg-deb --fsys-tarfile "$deb" |
		tar -xO --wildcards "./usr/src/linux-source-$LAB_KERNEL.tar.xz" |
		chroot "$root" xz -dc -T0 |
		tar -x -C "$work" --strip-components=1 \
			"linux-source-$LAB_KERNEL/drivers/infiniband/hw/efa" \
			"linux-source-$LAB_KERNEL/drivers/infiniband/sw/siw" \
			"linux-source-$LAB_KERNEL/include/uapi/rdma/efa-abi.h"
	rm "$deb"
done

build() { # build DIR CONFIG
	say "building $1"
	chroot "$root" make -s -j2 -C "/lib/modules/$release/build" \
		"M=/usr/src/peerdirect/drivers/infiniband/$1" "$2=m" modules
	mkdir -p "$root/lib/modules/$release/extra"
	cp "$work/drivers/infiniband/$1"/*.ko "$root/lib/modules/$release/extra/"
}
build hw/efa CONFIG_INFINIBAND_EFA
build sw/siw CONFIG_RDMA_SIW
chroot "$root" depmod "$release"

# What the guest needs before it has a root: its modules in the order of
# insertion, uncompressed, since busybox's insmod takes them only so.
early=$root/peerdirect/early
mkdir -p "$early"
chroot "$root" modprobe -a -S "$release" --show-depends virtio_pci 9pnet_virtio 9p overlay virtio_console virtio_net |
	awk '$1 == "insmod" && !seen[$2]++ { print $2 }' |
	while read -r module; do
		name=$(basename "$module" | sed 's/\.ko.*//')
		echo "$name" >>"$early/order"
		case $module in
		*.xz) chroot "$root" xz -dc "$module" ;;
		*) cat "$root$module" ;;
		esac >"$early/$name.ko"
	done

# What the guest mounts its shared folders on.
mkdir -p "$root/peerdirect/bin" "$root/peerdirect/src" "$root/peerdirect/out"
echo "$release" >"$root/peerdirect/release"
