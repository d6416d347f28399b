# Our own program over ibv_wr_*, between two machines: srd.c. The arguments are
# kinds of memory.
set -e
cd /tmp
gcc -O2 -Wall -Werror -o srd /peerdirect/src/scripts/acceptance.d/srd.c -lefa -libverbs
modprobe -a -q udmabuf || true # built in, or absent and then told
for memory in "$@"; do
	if [ "$PEERDIRECT_NODE" = 0 ]; then
		./srd -b "$memory"
	else
		./srd -b "$memory" "$PEERDIRECT_PEERS" || echo "# exit status $?"
	fi
done
