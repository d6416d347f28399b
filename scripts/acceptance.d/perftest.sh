# perftest of the distribution, between two machines: each line of the list is
# one case. Queue pairs are exchanged over TCP on the lab's link. The
# argument is a pattern of the cases to run, all by default.
port=18515
case $PEERDIRECT_NODE in 0) peer= ;; *) peer=$PEERDIRECT_PEERS ;; esac

while read -r tool arguments; do
	# shellcheck disable=SC2254
	case "$tool $arguments" in ${1:-?*}) ;; *) continue ;; esac
	port=$((port + 1))
	# The client may be early: of a case that failed, a server may wait for its
	# end. -x 0: EFA addresses by GID, of which it has one.
	for attempt in $(seq 600); do
		# shellcheck disable=SC2086
		timeout 60 stdbuf -oL $tool -d "$PEERDIRECT_DEVICE" -x 0 -p $port -F $arguments $peer >/tmp/log 2>&1 </dev/null
		status=$?
		grep -q "Couldn't connect to" /tmp/log || break
		sleep 0.2
	done
	[ -n "$peer" ] || continue
	cat /tmp/log
	if [ $status = 0 ]; then
		echo "ok - $tool $arguments"
	elif grep -q "does not support" /tmp/log; then
		echo "# skip $tool $arguments: $(grep "does not support" /tmp/log)"
	else
		echo "not ok - $tool $arguments: exit status $status: $(grep -v '^ *$' /tmp/log | tail -n1)"
	fi
done <<'END'
ib_send_bw -c SRD -s 64 -n 2000
ib_send_bw -c SRD -s 4096 -n 2000
ib_send_bw -c SRD -s 8192 -n 1000
ib_send_bw -c SRD -s 4096 -n 1000 -q 4
ib_send_bw -c SRD -s 4096 -n 1000 -b
ib_send_bw -c SRD -s 4096 -n 1000 -e
ib_send_bw -c SRD -a -n 200
ib_send_lat -c SRD -s 8 -n 1000
ib_send_lat -c SRD -s 4096 -n 1000
ib_send_lat -c SRD -s 8 -n 200 -e
ib_send_bw -c UD -s 4096 -n 2000 -Q 1
ib_send_lat -c UD -s 8 -n 1000
ib_write_bw -c SRD -s 65536 -n 1000
ib_write_bw -c SRD -s 1048576 -n 100 -b
ib_write_lat -c SRD -s 8 -n 1000 -I 0
ib_read_bw -c SRD -s 65536 -n 1000
ib_read_bw -c SRD -s 1048576 -n 100 -b
ib_read_lat -c SRD -s 8 -n 1000
END
