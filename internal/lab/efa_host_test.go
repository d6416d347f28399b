//go:build lab_host

package lab

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/efa/wire"
)

// Every kernel's driver takes the device, beside the link's own. Without a link
// scripts/test-lab runs them.
func TestHostEFAKernels(t *testing.T) {
	for _, k := range Kernels {
		t.Run(k.Series, func(t *testing.T) {
			t.Parallel()
			out, errs, err := inLab(t, Options{Kernel: k, Link: LinkRXE, EFA: EFA{Count: 1}},
				`ibv_devinfo -d efa_0 | grep -o PORT_ACTIVE && echo $PEERDIRECT_EFA $PEERDIRECT_DEVICE && ls /sys/class/infiniband`)
			if want := "PORT_ACTIVE\nefa_0 rxe0\nefa_0\nrxe0\n"; err != nil || out != want {
				t.Errorf("%v\n%s%s", err, out, errs)
			}
		})
	}
}

// efaPlaces prints, for each device in order, its NUMA node and how many bridges
// are above it.
const efaPlaces = `for d in $(echo $PEERDIRECT_EFA | tr , ' '); do
	echo $d $(cat /sys/class/infiniband/$d/device/numa_node) $(readlink -f /sys/class/infiniband/$d/device | grep -o '/0000:' | wc -l)
done; ls -d /sys/devices/system/node/node? | wc -l`

func places(n int) string {
	s := ""
	for i := range n {
		numa := 0
		if i >= (n+1)/2 {
			numa = 1
		}
		s += fmt.Sprintf("efa_%d %d 4\n", i, numa) // root port, upstream, downstream, device
	}
	return s + "2\n"
}

func TestHostEFASwitches(t *testing.T) {
	for _, c := range []struct {
		kernel string
		n      int
	}{{"7.3", 2}, {"6.12", 5}, {"6.1", 9}, {"7.3", MaxEFA}} {
		t.Run(fmt.Sprint(c.kernel, "/", c.n), func(t *testing.T) {
			t.Parallel()
			k, err := KernelBySeries(c.kernel)
			if err != nil {
				t.Fatal(err)
			}
			out, errs, err := inLab(t, Options{Kernel: k, EFA: EFA{Count: c.n}}, efaPlaces)
			if err != nil || out != places(c.n) {
				t.Errorf("%v\n%s%s", err, out, errs)
			}
		})
	}
}

// A device that the driver refuses is named, and the kernel's log tells why.
func TestHostEFAMissing(t *testing.T) {
	t.Parallel()
	refuse := func(_, index int, f *device.Function) {
		if index == 1 {
			f.InjectAdmin(device.AdminFault{Opcode: wire.OpGetFeature, Count: 1000, Status: wire.AdminUnknownError})
		}
	}
	_, _, err := inLab(t, Options{EFA: EFA{Count: 2, Made: refuse}}, "true")
	var dead *GuestError
	if !errors.As(err, &dead) || !strings.Contains(dead.Problem, "1 of 2 EFA devices are registered") ||
		!strings.Contains(dead.Problem, "no driver took 0000:") || !strings.Contains(dead.Console, "efa 0000:") {
		t.Errorf("got %v", err)
	}
}

// Devices of two machines meet on one fabric.
func TestHostEFATwoNodes(t *testing.T) {
	out, errs, err := inLab(t, Options{Nodes: 2, CPUs: 1, EFA: EFA{Count: 1}}, `
if [ $PEERDIRECT_NODE = 0 ]; then
	ib_send_bw -c SRD -d efa_0 -x 0 -s 4096 -n 200 -F >/dev/null && echo received
else
	for i in $(seq 50); do
		ib_send_bw -c SRD -d efa_0 -x 0 -s 4096 -n 200 -F $PEERDIRECT_PEERS >/dev/null 2>&1 && echo sent && exit
		sleep 0.2
	done
	exit 1
fi`)
	for _, line := range []string{"node0 | received\n", "node1 | sent\n"} {
		if err != nil || !strings.Contains(out, line) {
			t.Errorf("no %q: %v\n%s%s", line, err, out, errs)
		}
	}
}
