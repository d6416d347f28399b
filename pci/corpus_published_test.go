package pci

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Published matrices are compared cell by cell; all of them together are counted.
// Who prints a matrix prints each pair twice and the diagonal once.

// TestPublishedDGX2 compares the DGX-2's capture with what NVIDIA's guide prints
// of the same machine. The capture has no NICs and no NVMe: these are put where the
// guide says, or their bus does.
func TestPublishedDGX2(t *testing.T) {
	var want struct {
		GPUs        []string            `json:"gpu_bus"`
		NVMe        map[string]string   // bus addresses by name
		NVMePorts   map[string]string   `json:"nvme_parent_ports"`
		GPU         []string            `json:"answer_gpu_gpu_first8"`
		NIC         map[string]string   `json:"answer_nic_gpu_first8"`
		NearestNVMe map[string][]string `json:"answer_gpu_nvme"`
	}
	if err := json.Unmarshal(corpusFile(t, "published/nvidia-dgx2-gds-guide.json"), &want); err != nil {
		t.Fatal(err)
	}
	topo := captured(t, "nvidiaDGX2")
	dgx2IO(t, topo, want.NVMe, want.NVMePorts)
	var gpus []*Device
	for _, bus := range want.GPUs {
		gpus = append(gpus, placed(t, topo, bus+":00.0"))
	}
	if !slices.Equal(gpus, topo.Of(Accelerator)) {
		t.Fatalf("the accelerators are not those of the guide, %v", want.GPUs)
	}
	cells := 0
	for i, row := range want.GPU {
		cells += sameRow(t, topo, gpus[i], gpus[:8], strings.Fields(row))
	}
	// "GPU 8 to 15 to 0 to 7: all SYS", from either side.
	far := strings.Fields(strings.Repeat("SYS ", 8))
	for i := range 8 {
		cells += sameRow(t, topo, gpus[8+i], gpus[:8], far) + sameRow(t, topo, gpus[i], gpus[8:], far)
	}
	for name, row := range want.NIC {
		cells += sameRow(t, topo, at(t, topo, name), gpus[:8], strings.Fields(row))
	}
	if want := 8*8 + 2*8*8 + 4*8; cells != want {
		t.Errorf("compared %d cells of %d", cells, want)
	}
	t.Logf("%d cells", cells)

	// Which NVMe are the nearest of which accelerators.
	sets := 0
	p := &pairer{t: topo, accels: gpus, nics: topo.Of(NVMe)}
	p.measure()
	for group, names := range want.NearestNVMe {
		var first, last int
		if _, err := fmt.Sscanf(group, "%d-%d", &first, &last); err != nil {
			t.Fatal(err)
		}
		for i := first; i <= last; i++ {
			var found []string
			for _, j := range p.near[i] {
				found = append(found, topo.Name(p.nics[j]))
			}
			if !slices.Equal(found, names) {
				t.Errorf("the nearest NVMe of GPU%d are %v; want %v", i, found, names)
			}
			sets++
		}
	}
	if sets != 16 {
		t.Errorf("compared the nearest NVMe of %d accelerators of 16", sets)
	}
}

// dgx2IO adds a DGX-2's NICs and NVMe. The guide does not tell where the NICs are:
// below the switch of two GPUs one bus is left, between theirs.
func dgx2IO(t testing.TB, topo *Topology, nvme, ports map[string]string) {
	t.Helper()
	add := func(parent *Device, address string, kind Kind) *Device {
		a, err := ParseAddress(address)
		if err != nil {
			t.Fatal(err)
		}
		d := &Device{Address: a, Root: parent.Root, Parent: parent, Kind: kind, Group: -1}
		topo.Devices = append(topo.Devices, d)
		return d
	}
	gpus := topo.Of(Accelerator)
	for i := 0; i < len(gpus); i += 2 {
		up := gpus[i].Parent.Parent
		if up != gpus[i+1].Parent.Parent || gpus[i+1].Address.Bus-gpus[i].Address.Bus != 2 {
			t.Fatalf("%v and %v are not as on a DGX-2", gpus[i].Address, gpus[i+1].Address)
		}
		port := add(up, fmt.Sprintf("%02x:08.0", gpus[i].Parent.Address.Bus), Bridge)
		nic := add(port, fmt.Sprintf("%02x:00.0", gpus[i].Address.Bus+1), RDMANIC)
		nic.Vendor, nic.Class = mellanox, 0x020700
		nic.RDMA = []RDMA{{Name: fmt.Sprintf("mlx5_%d", i/2)}}
	}
	for name, address := range nvme {
		// Its port is beside those that lead to the GPUs' switches.
		beside := slices.IndexFunc(topo.Devices, func(d *Device) bool {
			return d.Parent != nil && strings.HasPrefix(d.Address.String(), "0000:"+ports[address][:3])
		})
		if beside < 0 {
			t.Fatalf("no switch has the port %s", ports[address])
		}
		port := add(topo.Devices[beside].Parent, ports[address], Bridge)
		add(port, address, NVMe).NVMe = []string{name}
	}
	Assemble(topo)
}

// sameRow compares a row of a matrix, and counts its cells.
func sameRow(t *testing.T, topo *Topology, from *Device, to []*Device, row []string) int {
	t.Helper()
	if len(row) != len(to) {
		t.Fatalf("%d cells for %d devices: %q", len(row), len(to), row)
	}
	for i, d := range to {
		if got := topo.Distance(from, d); got.Class.String() != row[i] {
			t.Errorf("from %s to %s: %v (%s); published is %s", topo.Name(from), topo.Name(d), got.Class, got.Reason, row[i])
		}
	}
	return len(row)
}

// TestPublishedDGXA100 is a part of another machine that the same guide tells of.
func TestPublishedDGXA100(t *testing.T) {
	var want struct {
		Second struct{ Facts []string } `json:"dgx_a100_second_machine"`
	}
	if err := json.Unmarshal(corpusFile(t, "published/nvidia-dgx2-gds-guide.json"), &want); err != nil || len(want.Second.Facts) != 3 {
		t.Fatalf("%v, %d facts; this test is of 3", err, len(want.Second.Facts))
	}
	topo := sketch(t, `
root 0000:00
  00:01.1 bridge
    01:00.0 bridge
      02:00.0 bridge
        03:00.0 bridge
          04:00.0 bridge
            07:00.0 gpu
          04:10.0 bridge
            08:00.0 nvme
          04:14.0 bridge
            09:00.0 nvme
      02:04.0 bridge
        0a:00.0 bridge
          0b:00.0 bridge
            0c:00.0 nic rdma=mlx5_0
          0b:10.0 bridge
            0f:00.0 gpu
      02:08.0 bridge
        10:00.0 bridge
          11:00.0 bridge
            12:00.0 nic rdma=mlx5_1`)
	near, far := at(t, topo, "07:00.0"), at(t, topo, "0f:00.0")
	for _, nvme := range topo.Of(NVMe) {
		if d := topo.Distance(near, nvme); d.Class != PIX || !strings.Contains(d.Reason, "0000:03:00.0") {
			t.Errorf("from 07:00.0 to %v: %+v", nvme.Address, d)
		}
		if d := topo.Distance(far, nvme); d.Class != PXB || !strings.Contains(d.Reason, "0000:01:00.0") {
			t.Errorf("from 0f:00.0 to %v: %+v", nvme.Address, d)
		}
	}
	p, err := topo.Pair(PairOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := spelled(topo, p), "GPU0 PXB: mlx5_1\nGPU1 PIX: mlx5_0\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestPublishedPuget compares a workstation of which a listing and a matrix of the
// vendor's tool are published side by side.
func TestPublishedPuget(t *testing.T) {
	text := string(corpusFile(t, "published/puget-threadripper-pro-wrx90.md"))
	_, listing, found := strings.Cut(text, "lspci -tv\n")
	listing, _, ended := strings.Cut(listing, "```")
	if !found || !ended {
		t.Fatal("no listing")
	}
	topo := lspciTree(t, listing)
	var want struct {
		Order, Labels []string
		Matrix        [][]string
		NUMA          map[string]int
		Tree          map[string]struct {
			Root    string
			Parents []string
		}
	}
	if err := json.Unmarshal(corpusFile(t, "answers/puget-threadripper-pro-wrx90.nvidia-smi.json"), &want); err != nil {
		t.Fatal(err)
	}
	if len(topo.Devices) != len(want.Tree) || len(want.Tree) == 0 {
		t.Errorf("%d devices in the listing, %d in the answer", len(topo.Devices), len(want.Tree))
	}
	for address, w := range want.Tree {
		d := placed(t, topo, address)
		var parents []string
		for up := d.Parent; up != nil; up = up.Parent {
			parents = append([]string{up.Address.String()}, parents...)
		}
		if d.Root.Name != w.Root || !slices.Equal(parents, w.Parents) {
			t.Errorf("%s is at %s below %v; want %s below %v", address, d.Root.Name, parents, w.Root, w.Parents)
		}
	}
	// "node 0 cpus", and the kinds that lspci -vvv and the vendor's tool give.
	topo.Nodes = []*Node{{Number: 0, Present: true, Memory: -1}}
	cpus := regexp.MustCompile(`node 0 cpus: ([0-9 ]+)`).FindStringSubmatch(text)
	if cpus == nil {
		t.Fatal("no list of processors")
	}
	var err error
	if topo.Nodes[0].CPUs, err = ParseCPUs(strings.Join(strings.Fields(cpus[1]), ",")); err != nil {
		t.Fatal(err)
	}
	var devices []*Device
	for i, address := range want.Order {
		d := placed(t, topo, address)
		d.Node, d.Kind = topo.Nodes[want.NUMA[address]], Accelerator
		if _, name, nic := strings.Cut(want.Labels[i], "="); nic {
			d.Kind, d.RDMA = RDMANIC, []RDMA{{Name: name}}
		}
		devices = append(devices, d)
	}
	cells := 0
	for i, row := range want.Matrix {
		cells += sameRow(t, topo, devices[i], devices, row)
	}
	// The same rows as the tool printed them, with its affinities.
	_, printed, _ := strings.Cut(text, "nvidia-smi topo -m\n")
	lines := strings.Split(printed, "\n")
	for i, d := range devices {
		fields := strings.Fields(lines[i+1])
		sameRow(t, topo, d, devices, fields[1:1+len(devices)])
		if d.Kind == Accelerator && (fields[5] != topo.affinity(d).CPUs.String() || fields[6] != fmt.Sprint(topo.affinity(d).Number)) {
			t.Errorf("%s is near %v of node %d; published is %q", topo.Name(d), topo.affinity(d).CPUs, topo.affinity(d).Number, lines[i+1])
		}
	}
	if cells != 16 {
		t.Errorf("compared %d cells of 16", cells)
	}
	t.Logf("%d devices of the listing, %d cells", len(want.Tree), cells)
}
