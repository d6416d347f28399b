# libfabric's fabtests on the efa provider, between two machines: upstream's
# runfabtests.sh with upstream's list of what efa excludes. It reaches both
# machines through ssh.
set -e
# Some cases allocate buffers of the largest RDMA request, a gigabyte each.
echo 1 >/proc/sys/vm/overcommit_memory
mkdir -p -m 700 /run/sshd ~/.ssh
install -m 600 /opt/fabtests/ssh/key ~/.ssh/id_ed25519
install -m 600 /opt/fabtests/ssh/key.pub ~/.ssh/authorized_keys
cat >~/.ssh/config <<'END'
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
# One handshake, not one a command: they are slow under emulation.
ControlMaster auto
ControlPath ~/.ssh/%h
ControlPersist yes
END
/usr/sbin/sshd -o UsePAM=no -o StrictModes=no -o MaxSessions=100 -h ~/.ssh/id_ed25519
if [ "$PEERDIRECT_NODE" = 0 ]; then
	# The other machine tells when it is through.
	for second in $(seq 3600); do
		[ ! -e /tmp/finished ] || exit 0
		sleep 1
	done
	exit 1
fi
for second in $(seq 60); do
	! ssh -n "$PEERDIRECT_PEERS" true || ! ssh -n "$PEERDIRECT_ADDR" true || break
	sleep 1
done
cd /tmp
PATH=/opt/fabtests/bin:$PATH
/opt/fabtests/bin/runfabtests.sh -v -b -T 60 -t "${1:-quick}" -p /opt/fabtests/bin \
	-f /opt/fabtests/test_configs/efa/efa.exclude \
	efa "$PEERDIRECT_PEERS" "$PEERDIRECT_ADDR" 2>&1 | tee log || true
ssh -n "$PEERDIRECT_PEERS" touch /tmp/finished
# A case that upstream's list excludes, or that finds that the provider has not
# what it tests, is not counted. The runner knows the second kind (Notrun) if both
# sides say so, but with the exchange of addresses that EFA needs (-b) one of them
# sees only that the other has left, or that it is not there to be reached. So a
# case of message endpoints, which the provider has not, goes by its arguments.
awk '
	function finish() {
		if (result ~ /^Pass/) print "ok " ++n " - " name
		else if (result == "Fail" && !lacks && name ~ /-e msg( |$)/) print "# skip " name ": no message endpoints"
		else if (result == "Fail" && !lacks) print "not ok " ++n " - " name
		else if (result != "") print "# skip " name ": " (lacks ? lacks : result)
		result = lacks = ""
	}
	/^- name: / { finish(); name = $0; sub(/^- name: */, "", name) }
	/^  result: / { result = $2 }
	/ret=-61 \(No data available\)|ret=-38 \(Function not implemented\)/ { lacks = $0; sub(/^ */, "", lacks) }
	END { finish(); print "1.." n; if (!n) print "not ok - the runner itself failed" }' log
