//go:build lab_host

package lab

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/peerdirect/peerdirect/efa/device"
)

// acceleratorPlaces prints, for each accelerator and EFA device, its NUMA node and
// the switch that it is below.
const acceleratorPlaces = `place() { echo $1 $(cat $2/numa_node) $(readlink -f $2 | sed 's|.*\(0000:[^/]*\)/[^/]*/[^/]*$|\1|'); }
for i in $(seq 0 $(($(ls -d /sys/class/misc/peerdirect_accel* | wc -l) - 1))); do
	place accel:$i /sys/class/misc/peerdirect_accel$i/device
done
for d in $(echo $PEERDIRECT_EFA | tr , ' '); do place $d /sys/class/infiniband/$d/device; done
echo $PEERDIRECT_ACCELERATORS`

// Every kernel has the accelerators, beside the EFA devices that are near them.
func TestHostAcceleratorPlaces(t *testing.T) {
	for _, k := range Kernels {
		t.Run(k.Series, func(t *testing.T) {
			t.Parallel()
			out, errs, err := inLab(t, Options{Kernel: k, EFA: EFA{Count: 2}, Accelerators: Accelerators{Count: 2}}, acceleratorPlaces)
			at := map[string]string{}
			for line := range strings.Lines(out) {
				name, place, _ := strings.Cut(strings.TrimSpace(line), " ")
				at[name] = place
			}
			if err != nil || at["accel:0"] != at["efa_0"] || at["accel:1"] != at["efa_1"] || at["efa_0"] == at["efa_1"] ||
				!strings.HasPrefix(at["accel:0"], "0 0000:") || !strings.HasPrefix(at["accel:1"], "1 0000:") ||
				!strings.HasSuffix(out, "\naccel:0,accel:1\n") {
				t.Errorf("%v\n%s%s", err, out, errs)
			}
		})
	}
}

// The firmware and the kernel find room for the most there can be.
func TestHostAcceleratorMost(t *testing.T) {
	t.Parallel()
	out, errs, err := inLab(t, Options{EFA: EFA{Count: 4}, Accelerators: Accelerators{Count: MaxAccelerators, Memory: 256}},
		`ls -d /dev/peerdirect_accel* | wc -l; lspci -v -d 1af4:1110 | grep -o ', prefetchable) \[size=.*\]' | sort -u`)
	if want := fmt.Sprintf("%d\n, prefetchable) [size=256M]\n", MaxAccelerators); err != nil || out != want {
		t.Errorf("%v\n%s%s", err, out, errs)
	}
}

// A transfer between the accelerators of two machines: the devices that carry it
// touch no byte of it in the hosts' memory, and all of it there where the pages
// are there.
func TestHostTransferBetweenAccelerators(t *testing.T) {
	const pages, pageSize = 256, 64 << 10
	program := filepath.Join(t.TempDir(), "peerdirect")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/peerdirect").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	transfer := func(memory string) (rate float64, sender, receiver device.Stats) {
		t.Helper()
		var functions [2]*device.Function
		o := Options{
			Nodes: 2, CPUs: 1, Agent: program, Accelerators: Accelerators{Count: 1},
			EFA: EFA{Count: 1, Made: func(node, _ int, f *device.Function) { functions[node] = f }},
		}
		out, errs, err := inLab(t, o, fmt.Sprintf(`
export PEERDIRECT_TOKEN="no secret in the lab"
o="--device efa_0 --memory %s --json"
if [ $PEERDIRECT_NODE = 0 ]; then exec peerdirect transfer listen --listen $PEERDIRECT_ADDR --once $o; fi
exec peerdirect transfer to $PEERDIRECT_PEERS --wait 1m --pages %d --page-size %d $o >/dev/null`, memory, pages, pageSize))
		if err != nil {
			t.Fatalf("%v\n%s%s", err, out, errs)
		}
		var result struct {
			Verified bool    `json:"verified"`
			Bytes    uint64  `json:"bytes"`
			Rate     float64 `json:"bytes_per_second"`
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(out, "node0 | ")), &result); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if !result.Verified || result.Bytes != pages*pageSize {
			t.Errorf("%+v", result)
		}
		return result.Rate, functions[1].Device().Stats(), functions[0].Device().Stats()
	}
	straight, from, to := transfer("accel:0")
	want := [2]device.PayloadStats{{AcceleratorRead: pages * pageSize}, {AcceleratorWritten: pages * pageSize}}
	if diff := cmp.Diff(want, [2]device.PayloadStats{from.RDMAPayload, to.RDMAPayload}); diff != "" {
		t.Errorf("from accelerator to accelerator: %s", diff)
	}
	// What the two sides have to tell each other is in host memory.
	if n := from.MessagePayload.HostRead + from.MessagePayload.HostWritten; n > 4096 {
		t.Errorf("%d bytes of messages", n)
	}
	host, from, to := transfer("host")
	want = [2]device.PayloadStats{{HostRead: pages * pageSize}, {HostWritten: pages * pageSize}}
	if diff := cmp.Diff(want, [2]device.PayloadStats{from.RDMAPayload, to.RDMAPayload}); diff != "" {
		t.Errorf("from host to host: %s", diff)
	}
	t.Logf("accelerator to accelerator %.0f MB/s, host to host %.0f MB/s", straight/1e6, host/1e6)
}
