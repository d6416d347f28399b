package pci

import (
	"fmt"
	"strings"
	"testing"
)

// told puts findings into lines: code, severity, devices.
func told(topo *Topology, findings []Finding) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%s %s:", f.Code, f.Severity)
		for _, d := range f.Devices {
			b.WriteString(" " + topo.Name(d))
		}
		b.WriteString("\n")
	}
	return b.String()
}

const switched = `
node 0
node 1
root 0000:00 node=0
  00:01.0 port link=32x16/32x16
    01:00.0 up link=32x16/32x16
      02:00.0 down acs=%s link=32x16/32x16
        03:00.0 gpu link=%s %s
      02:01.0 down acs=%s link=32x16/32x16
        04:00.0 nic rdma=mlx5_0 link=%s
`

func TestFindings(t *testing.T) {
	const full = "32x16/32x16"
	for _, c := range []struct{ name, machine, want, text string }{
		{"nothing", fmt.Sprintf(switched, "01", full, "", "01", full), "", ""},
		{"source validation is harmless", fmt.Sprintf(switched, "01", full, "", "61", full), "", ""},
		{"redirect", fmt.Sprintf(switched, "1d", full, "", "04", full), "acs-redirect warning: 0000:02:00.0 0000:02:01.0\n",
			"Access control on 2 switch ports turns peer-to-peer traffic up to the root complex, for one between GPU0 (0000:03:00.0) and mlx5_0 (0000:04:00.0), which a switch connects (SrcValid+ ReqRedir+ CmpltRedir+ UpstreamFwd+). " +
				"pci=disable_acs_redir=0000:02:00.0;0000:02:01.0"},
		{"redirect between roots costs no switch", `
root 0000:00
  00:01.0 port acs=1d
    01:00.0 gpu
  00:02.0 port acs=1d
    02:00.0 nic rdma=mlx5_0`, "", ""},
		{"config space not readable", strings.ReplaceAll(fmt.Sprintf(switched, "", full, "", "", full), "acs=", ""), "acs-unknown info: 0000:02:00.0 0000:02:01.0\n", "Run as root"},
		{"lanes lost", fmt.Sprintf(switched, "01", full, "", "01", "32x8/32x16"), "link-slow warning: mlx5_0\n",
			"The link runs at 32 GT/s x8; the device can 32 GT/s x16, and the port above is not known to hold it down. 31.5 GB/s each way at most instead of 63."},
		{"speed lost", fmt.Sprintf(switched, "01", full, "", "01", "16x16/32x16"), "link-slow warning: mlx5_0\n", "31.5 GB/s each way"},
		{"at rest", fmt.Sprintf(switched, "01", "2.5x16/32x16", "", "01", full), "link-idle info: GPU0\n", "All its lanes are up"},
		{"at rest, but lanes lost", fmt.Sprintf(switched, "01", "2.5x8/32x16", "", "01", full), "link-slow warning: GPU0\n", "2 GB/s each way at most instead of 63."},
		{"a slot that can less", `
root 0000:00
  00:01.0 port link=16x8/16x8
    01:00.0 gpu link=16x8/32x16`, "link-slot warning: GPU0\n", "the port above no more. 15.8 GB/s each way at most instead of 63."},
		{"at rest in a slot that can less", `
root 0000:00
  00:01.0 port link=2.5x16/16x16
    01:00.0 gpu link=2.5x16/32x16`, "link-idle info: GPU0\n", ""},
		{"a narrow device below a wide port, whose types are unknown", `
root 0000:00
  00:01.0 bridge link=16x16/16x16
    01:00.0 bridge link=16x16/16x16
      02:00.0 bridge link=8x4/16x16
        03:00.0 nvme link=8x4/8x4
      02:01.0 bridge link=16x16/16x16
        04:00.0 nic rdma=a link=16x16/16x16`, "", ""},
		{"a switch whose uplink has lost lanes, whose types are unknown", `
root 0000:00
  00:01.0 bridge link=16x8/16x16
    01:00.0 bridge link=16x8/16x16
      02:00.0 bridge link=16x16/16x16
        03:00.0 nic rdma=a link=16x16/16x16`, "link-slow warning: 0000:01:00.0\n", ""},
		{"alike are one", `
root 0000:00
  00:01.0 gpu link=2.5x16/32x16
  00:02.0 gpu link=2.5x16/32x16
  00:03.0 gpu link=8x16/32x16`, "link-idle info: GPU0 GPU1\nlink-idle info: GPU2\n", ""},
		{"widths alone are known", `
root 0000:00
  00:01.0 nvme link=0x2/0x4`, "link-slow warning: NVMe0\n", "runs at x2; the device can x4"},
		{"virtual functions have no link of their own", `
root 0000:00
  00:01.0 nic rdma=a link=16x16/16x16
  00:01.1 nic rdma=b pf=00:01.0 link=2.5x1/16x16`, "pf-and-vf info: a b\n", "a (0000:00:01.0) is visible together with 1 virtual function of it."},
		{"a bridge that a hypervisor made up", `
guest
root 0000:00
  00:01.0 bridge link=16x1/16x1
    01:00.0 gpu link=32x16/32x16`, "bridge-virtual info: 0000:00:01.0\n", "1.97 GB/s above a device whose link runs at 63 GB/s"},
		{"a guest that does not show itself", `
root 0000:00
  00:01.0 bridge link=16x1/16x1
    01:00.0 gpu link=32x16/32x16`, "bridge-virtual info: 0000:00:01.0\n", "may be a guest that does not show it"},
		{"on hardware a quarter can be true", `
root 0000:00
  00:01.0 port
    01:00.0 up link=16x8/16x8
      02:00.0 down
        03:00.0 nvme link=32x16/32x16`, "", ""},
		{"its speed holds nothing down", `
guest
root 0000:00
  00:01.0 port link=2.5x1/2.5x1
    01:00.0 gpu link=16x16/32x16`, "bridge-virtual info: 0000:00:01.0\nlink-idle info: GPU0\n", ""},
		{"translated", `
root 0000:00
  00:01.0 gpu group=DMA
  00:02.0 nic rdma=a group=DMA-FQ
  00:03.0 nvme group=DMA
  00:04.0 nic rdma=b group=identity`, "iommu-translating warning: GPU0\niommu-translating warning: a\n", "boot with iommu=pt"},
		{"memory behind a window", fmt.Sprintf(switched, "01", full, "bar=256 memory=81920", "01", full), "bar-small warning: GPU0\n",
			"The largest BAR has 256 MiB, the accelerator 80 GiB of memory."},
		{"all of the memory", fmt.Sprintf(switched, "01", full, "bar=131072 memory=81559", "01", full), "", ""},
		{"memory unknown", fmt.Sprintf(switched, "01", full, "bar=256", "01", full), "bar-small info: GPU0\n", "is unknown"},
		{"far", `
node 0
node 1
root 0000:00 node=0
  00:01.0 gpu
root 0000:80 node=1
  80:01.0 nic rdma=a`, "nic-far warning: GPU0 a\n", "GPU0 (0000:00:01.0) of NUMA node 0 has a rail in node 1, a (0000:80:01.0)."},
		{"no node in a guest", `
node 0
node 1
root 0000:00 node=0
  00:01.0 gpu
root 0000:80
  80:01.0 nic rdma=a`, "numa-unknown warning: a\n", "no NUMA node is known"},
		{"no node, one root complex", `
node 0
node 1
root 0000:00
  00:01.0 gpu
  00:02.0 nic rdma=a`, "numa-unknown info: GPU0 a\n", "known by the bus alone"},
		{"one node only", `
node 0
root 0000:00
  00:01.0 gpu
  00:02.0 nic rdma=a`, "", ""},
		{"a node that there is not, and one without processors", `
node 0
node 2 absent
node 3 none
root 0000:00
  00:01.0 gpu node=2
  00:02.0 nic rdma=a node=3`, "numa-unknown info: GPU0\nnuma-unknown info: a\n", "the kernel lists no NUMA node 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			topo := sketch(t, c.machine)
			findings := topo.Findings()
			if got := told(topo, findings); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
			var all []string
			for _, f := range findings {
				if f.What == "" || f.Cost == "" || f.Remedy == "" {
					t.Errorf("%s: what %q, cost %q, remedy %q", f.Code, f.What, f.Cost, f.Remedy)
				}
				all = append(all, f.What+" "+f.Cost+" "+f.Remedy)
			}
			for _, part := range strings.Split(c.text, ". ") {
				if text := strings.Join(all, "\n"); !strings.Contains(text, strings.TrimSuffix(part, ".")) {
					t.Errorf("%q is missing in\n%s", part, text)
				}
			}
		})
	}
}

// What is found goes by the rails in use, not by those of the distance.
func TestFindingsOfOverrides(t *testing.T) {
	topo := sketch(t, `
node 0
node 1
root 0000:00 node=0
  00:01.0 gpu
  00:02.0 nic rdma=near
root 0000:80 node=1
  80:01.0 nic rdma=far`)
	if got := told(topo, topo.Findings()); got != "" {
		t.Errorf("by distance: %s", got)
	}
	o, err := ParseOverrides(strings.NewReader("GPU0 = far, near"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := topo.Pair(PairOptions{Overrides: o})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := told(topo, topo.FindingsOf(p)), "nic-far warning: GPU0 far\n"; got != want {
		t.Errorf("by the overrides: %q, want %q", got, want)
	}
}
