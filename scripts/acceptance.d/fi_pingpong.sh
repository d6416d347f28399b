# libfabric's fi_pingpong on the efa provider, between two machines.
case $PEERDIRECT_NODE in 0) peer= ;; *) peer=$PEERDIRECT_PEERS ;; esac
port=47592
while read -r arguments; do
	[ -n "$arguments" ] || continue
	port=$((port + 1))
	for attempt in $(seq 600); do
		# shellcheck disable=SC2086
		timeout 60 fi_pingpong -p efa -c $arguments ${peer:+-P $port} ${peer:--B $port} >/tmp/log 2>&1 </dev/null
		status=$?
		grep -q "Connection refused" /tmp/log || break
		sleep 0.2
	done
	[ -n "$peer" ] || continue
	cat /tmp/log
	if [ $status = 0 ]; then
		echo "ok - fi_pingpong $arguments"
	else
		echo "not ok - fi_pingpong $arguments: exit status $status: $(grep -v '^ *$' /tmp/log | tail -n1)"
	fi
done <<'END'
-e rdm -S 64 -I 200
-e rdm -S 8192 -I 200
-e rdm -S 1048576 -I 20
-e rdm -S all -I 10
-e rdm -m tagged -S 64 -I 200
-e rdm -m tagged -S 65536 -I 50
-e dgram -S 64 -I 200
-e dgram -S 4096 -I 200
END
