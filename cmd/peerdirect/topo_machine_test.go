package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// topoFunction is one function of topoMachine.
type topoFunction struct {
	path                  string // below /sys/devices
	vendor, device, class string
	node                  int
	speed, most           string
}

// topoMachine is two sockets; on each a switch with an accelerator and two NICs, of
// which one has lost half its speed; a BMC, and an NVMe drive below the other root.
var topoMachine = []topoFunction{
	{"pci0000:00/0000:00:01.0", "8086", "352a", "060400", 0, "32.0", "32.0"},
	{"pci0000:00/0000:00:01.0/0000:01:00.0", "1000", "c030", "060400", 0, "32.0", "32.0"},
	{"pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0", "1000", "c030", "060400", 0, "32.0", "32.0"},
	{"pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0", "10de", "2330", "030200", 0, "32.0", "32.0"},
	{"pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0", "1000", "c030", "060400", 0, "32.0", "32.0"},
	{"pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0", "15b3", "1021", "020700", 0, "32.0", "32.0"},
	{"pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:02.0", "1000", "c030", "060400", 0, "32.0", "32.0"},
	{"pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:02.0/0000:05:00.0", "15b3", "1021", "020700", 0, "16.0", "32.0"},
	{"pci0000:00/0000:00:1f.0", "1a03", "2000", "030000", 0, "", ""},
	{"pci0000:80/0000:80:01.0", "8086", "352a", "060400", 1, "32.0", "32.0"},
	{"pci0000:80/0000:80:01.0/0000:81:00.0", "1000", "c030", "060400", 1, "32.0", "32.0"},
	{"pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:00.0", "1000", "c030", "060400", 1, "32.0", "32.0"},
	{"pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:00.0/0000:83:00.0", "10de", "2330", "030200", 1, "2.5", "32.0"},
	{"pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:01.0", "1000", "c030", "060400", 1, "32.0", "32.0"},
	{"pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:01.0/0000:84:00.0", "15b3", "1021", "020700", 1, "32.0", "32.0"},
	{"pci0000:80/0000:80:03.0", "8086", "352a", "060400", 1, "16.0", "32.0"},
	{"pci0000:80/0000:80:03.0/0000:85:00.0", "144d", "a824", "010802", 1, "16.0", "16.0"},
}

// lines gives the function in the form of writeRoot.
func (f topoFunction) lines() string {
	address := filepath.Base(f.path)
	dir := "sys/devices/" + f.path
	var b strings.Builder
	file := func(name, text string) { fmt.Fprintf(&b, "%s/%s = %s\n", dir, name, text) }
	fmt.Fprintf(&b, "sys/bus/pci/devices/%s -> ../../../devices/%s\n", address, f.path)
	file("vendor", "0x"+f.vendor)
	file("device", "0x"+f.device)
	file("class", "0x"+f.class)
	file("numa_node", fmt.Sprint(f.node))
	file("local_cpulist", fmt.Sprintf("%d-%d", 32*f.node, 32*f.node+31))
	if f.speed != "" {
		file("current_link_speed", f.speed+" GT/s PCIe")
		file("max_link_speed", f.most+" GT/s PCIe")
		file("current_link_width", "16")
		file("max_link_width", "16")
	}
	switch f.class {
	case "020700":
		name := map[string]string{"0000:04:00.0": "mlx5_0", "0000:05:00.0": "mlx5_1", "0000:84:00.0": "mlx5_2"}[address]
		file("infiniband/"+name+"/ports/1/state", "4: ACTIVE")
		file("infiniband/"+name+"/ports/1/link_layer", "InfiniBand")
		file("infiniband/"+name+"/ports/1/rate", "400 Gb/sec (4X NDR)")
		fmt.Fprintf(&b, "sys/class/infiniband/%s -> ../../devices/%s/infiniband/%s\n", name, f.path, name)
	case "010802":
		file("nvme/nvme0/model", "disk")
		fmt.Fprintf(&b, "sys/class/nvme/nvme0 -> ../../devices/%s/nvme/nvme0\n", f.path)
	}
	return b.String()
}

// topoRoot writes topoMachine, and more in the form of writeRoot.
func topoRoot(t *testing.T, more string) string {
	t.Helper()
	var b strings.Builder
	for _, f := range topoMachine {
		b.WriteString(f.lines())
	}
	for node := range 2 {
		dir := fmt.Sprintf("sys/devices/system/node/node%d/", node)
		fmt.Fprintf(&b, "%scpulist = %d-%d\n%sdistance = %s\n", dir, 32*node, 32*node+31, dir, []string{"10 21", "21 10"}[node])
	}
	b.WriteString("sys/devices/virtual/dmi/id/sys_vendor = Example\nsys/devices/virtual/dmi/id/product_name = Two Sockets\n")
	b.WriteString("proc/sys/kernel/osrelease = 6.12.0\nproc/sys/kernel/arch = x86_64\n")
	return writeRoot(t, b.String()+more)
}

func topoRun(t *testing.T, stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	if stdin == nil {
		stdin = strings.NewReader("")
	}
	var out, words bytes.Buffer
	code = run(t.Context(), append([]string{"topo"}, args...), stdin, &out, &words)
	return code, out.String(), words.String()
}

func overrides(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "rails")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
