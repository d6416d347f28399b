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
		status=0
		./srd -b "$memory" "$PEERDIRECT_PEERS" || status=$?
		[ $status -le 1 ] || echo "not ok - $memory: the program itself failed"
	fi
done
