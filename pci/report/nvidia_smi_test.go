package report

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/sysroot"
	"github.com/peerdirect/peerdirect/pci"
)

// TestNvidiaSMI compares this machine's matrix with what the vendor's tool prints of
// it: cells between accelerators with "topo -mp", which leaves NVLink out, the others
// and the processors with "topo -m".
func TestNvidiaSMI(t *testing.T) {
	if _, err := exec.LookPath("nvidia-smi"); err != nil {
		t.Skip("needs a machine with NVIDIA's GPUs and nvidia-smi: no machine of the lab has one; docs/topology.md tells where it ran")
	}
	root, err := sysroot.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	topo, err := pci.Read(root)
	if topo == nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		out, err := exec.Command("nvidia-smi", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("nvidia-smi %s: %v: %s", strings.Join(args, " "), err, out)
		}
		t.Logf("nvidia-smi %s\n%s", strings.Join(args, " "), out)
		return string(out)
	}
	devices := make(map[string]*pci.Device)
	for line := range strings.Lines(run("--query-gpu=index,pci.bus_id", "--format=csv,noheader")) {
		index, bus, _ := strings.Cut(strings.TrimSpace(line), ", ")
		a, err := pci.ParseAddress(bus)
		if err != nil {
			t.Fatal(err)
		}
		if devices["GPU"+index] = topo.Device(a); devices["GPU"+index] == nil {
			t.Fatalf("GPU%s at %v is not in the topology", index, a)
		}
	}
	all, paths := smiMatrix(run("topo", "-m")), smiMatrix(run("topo", "-mp"))
	for label, name := range all.nics {
		for _, d := range topo.Devices {
			for _, r := range d.RDMA {
				if r.Name == name {
					devices[label] = d
				}
			}
		}
		if devices[label] == nil {
			t.Errorf("%s, %s, is not in the topology", label, name)
		}
	}
	cells, gpus := 0, 0
	for from, row := range all.rows {
		for to, want := range row {
			a, b := devices[from], devices[to]
			gpu := strings.HasPrefix(from, "GPU") && strings.HasPrefix(to, "GPU")
			if a == nil || b == nil || a == b {
				continue
			}
			if gpu {
				want = paths.rows[from][to]
				gpus++
			}
			cells++
			if d := topo.Distance(a, b); d.Class.String() != want {
				t.Errorf("%s to %s is %v (%s); nvidia-smi says %s", from, to, d.Class, d.Reason, want)
			}
		}
	}
	for label, d := range devices {
		if !strings.HasPrefix(label, "GPU") {
			continue
		}
		affinity := all.rows[label]
		if got := d.CPUs.String(); got != affinity["CPU Affinity"] {
			t.Errorf("%s: CPUs %s; nvidia-smi says %s", label, got, affinity["CPU Affinity"])
		}
		got := affinity["NUMA Affinity"]
		if d.Node == nil {
			// The tool goes by the processors then; the kernel does not say.
			t.Logf("%s: the kernel gives no node; nvidia-smi says %s", label, got)
		} else if node := strconv.Itoa(d.Node.Number); got != node {
			t.Errorf("%s: node %s; nvidia-smi says %s", label, node, got)
		}
	}
	t.Logf("%d GPUs; %d cells compared, %d of them between GPUs", len(devices)-len(all.nics), cells, gpus)
}

type smi struct {
	rows map[string]map[string]string // cell by row and column
	nics map[string]string            // RDMA device by label
}

var ansi = regexp.MustCompile("\x1b\\[[0-9;]*m")

// smiMatrix takes the table, whose cells tabs part, and the legend of NICs.
func smiMatrix(text string) smi {
	m := smi{rows: make(map[string]map[string]string), nics: make(map[string]string)}
	var header []string
	for line := range strings.Lines(ansi.ReplaceAllString(text, "")) {
		line = strings.TrimRight(line, "\n")
		cells := strings.Split(line, "\t")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case header == nil && len(cells) > 1 && cells[0] == "":
			header = cells
		case len(cells) > 1 && (strings.HasPrefix(cells[0], "GPU") || strings.HasPrefix(cells[0], "NIC")):
			row := make(map[string]string)
			for i, c := range cells {
				if i < len(header) {
					row[header[i]] = c
				}
			}
			m.rows[cells[0]] = row
		default:
			if label, name, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && strings.HasPrefix(label, "NIC") && !strings.Contains(label, " ") {
				m.nics[label] = strings.TrimSpace(name)
			}
		}
	}
	return m
}

func TestSMIMatrix(t *testing.T) {
	m := smiMatrix("\t\x1b[4mGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n" +
		"GPU0\t X \tSYS\t0-31\t0\t\tN/A\nNIC0\tSYS\t X \t\t\t\t\n\nNIC Legend:\n\n  NIC0: mlx5_0\n")
	if m.rows["GPU0"]["NIC0"] != "SYS" || m.rows["GPU0"]["CPU Affinity"] != "0-31" || m.rows["GPU0"]["NUMA Affinity"] != "0" || m.rows["NIC0"]["GPU0"] != "SYS" || m.nics["NIC0"] != "mlx5_0" {
		t.Errorf("%+v", m)
	}
}
