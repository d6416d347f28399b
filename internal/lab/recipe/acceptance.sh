#!/bin/sh
# Builds upstream's test suites for EFA from Debian's source packages: rdma-core
# with its Python tests into /opt/rdma-core, libfabric's fabtests into
# /opt/fabtests. mmdebstrap runs this as a customize hook: $1 is the root, apt
# works for the root through MMDEBSTRAP_APT_CONFIG, and /proc is mounted inside.
set -eu
root=$1
work=/usr/src/peerdirect
say() { echo "peerdirect: $*" >&2; }

# Upstream's archive out of Debian's source package, without Debian's patches;
# apt checks the index's signature and the archive's hash.
fetch() { # PACKAGE RELEASE DIRECTORY
	say "fetching the source of $1"
	mkdir -p "$root$work" "$root$3"
	(cd "$root$work" && APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get source -q --download-only --tar-only "$1/$2")
	chroot "$root" sh -eu -c "tar -x -C $3 --strip-components=1 -f $work/$1_*; ls $work | tee -a /opt/versions; rm -r $work"
}

fetch rdma-core forky /opt/rdma-core
say "building rdma-core's verbs, EFA provider and Python bindings"
chroot "$root" sh -eu <<'END'
mkdir /opt/rdma-core/build
cd /opt/rdma-core/build
# -O1: most of the time goes into compiling what Cython made, which runs little.
cmake -GNinja -DIN_PLACE=1 -DNO_MAN_PAGES=1 -DENABLE_VALGRIND=0 -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS=-O1 ..
# Of the providers only those that the Python modules link with.
ninja $(ninja -t targets all | sed -n 's|^\(python/[^:]*\.so\): .*|\1|p; s|^\(lib/libefa\.so\): .*|\1|p')
find . -name '*.o' -delete
END

fetch libfabric trixie /opt/libfabric
say "building fabtests"
chroot "$root" sh -eu <<'END'
cd /opt/libfabric/fabtests
./autogen.sh
./configure --prefix=/opt/fabtests
make -s -j2 install
cp -r test_configs /opt/fabtests/
rm -r /opt/libfabric
END

# The nodes of a run reach each other with this key, and nothing else does:
# their link ends in the lab.
mkdir -p "$root/opt/fabtests/ssh"
chroot "$root" ssh-keygen -q -t ed25519 -N '' -f /opt/fabtests/ssh/key
