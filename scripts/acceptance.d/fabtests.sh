# libfabric's fabtests on the efa provider, between two machines: upstream's
# runfabtests.sh with upstream's list of what efa excludes. It reaches both
# machines through ssh.
set -e
mkdir -p -m 700 /run/sshd ~/.ssh
install -m 600 /opt/fabtests/ssh/key ~/.ssh/id_ed25519
install -m 600 /opt/fabtests/ssh/key.pub ~/.ssh/authorized_keys
cat >~/.ssh/config <<'END'
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
until ssh -n "$PEERDIRECT_PEERS" true && ssh -n "$PEERDIRECT_ADDR" true; do sleep 1; done
cd /tmp
PATH=/opt/fabtests/bin:$PATH
/opt/fabtests/bin/runfabtests.sh -v -b -T 120 -t "${1:-quick}" -p /opt/fabtests/bin \
	-f /opt/fabtests/test_configs/efa/efa.exclude \
	efa "$PEERDIRECT_PEERS" "$PEERDIRECT_ADDR" >log 2>&1 || true
cat log
ssh -n "$PEERDIRECT_PEERS" touch /tmp/finished
# A case that upstream's list excludes, or that says itself that the provider
# has not what it tests, is not counted.
awk '
	/^- name: / { name = $0; sub(/^- name: */, "", name) }
	/^  result: Pass/ { print "ok " ++n " - " name }
	/^  result: Fail/ { print "not ok " ++n " - " name }
	/^  result: (Notrun|Excluded)/ { print "# skip " name ": " $2 }
	END { print "1.." n; if (!n) print "not ok - the runner itself failed" }' log
