# rdma-core's own tests, of the modules named: upstream's runner, its lines
# turned into TAP. A skipped test has not passed.
cd /opt/rdma-core
build/bin/run_tests.py -v --dev "$PEERDIRECT_DEVICE" "$@" >/tmp/log 2>&1
cat /tmp/log
sed 's/^ *//' /tmp/log | awk '
	/^test_[a-z0-9_]* \(/ { name = $1 }
	/(^|\.\.\. )(ok|FAIL|ERROR|skipped .*)$/ {
		result = $0
		sub(/^.*\.\.\. /, "", result)
		if (result == "ok") print "ok " ++n " - " name
		else print "not ok " ++n " - " name ": " result
		seen[name]++
	}
	/^Ran [0-9]+ test/ { ran = $2 }
	END {
		print "1.." (ran ? ran : "?")
		if (!ran) print "not ok - the runner itself failed"
	}'
