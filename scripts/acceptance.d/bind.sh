# The driver took the device, and sends and receives with the root's own
# rdma-core and perftest.
tell() { if [ "$1" = 0 ]; then echo "ok - $2"; else echo "not ok - $2"; fi; }
ibv_devinfo -d "$PEERDIRECT_DEVICE" -v >/tmp/log 2>&1
status=$?
cat /tmp/log
tell $status "ibv_devinfo on node $PEERDIRECT_NODE"
grep -q PORT_ACTIVE /tmp/log
tell $? "port active on node $PEERDIRECT_NODE"
set -- 'ib_send_*'
. scripts/acceptance.d/perftest.sh
