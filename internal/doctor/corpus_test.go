package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/peerdirect/peerdirect/internal/sysroot"
)

// captured opens a machine of the topology corpus.
func captured(t *testing.T, name string) *System {
	t.Helper()
	folder := os.Getenv("PEERDIRECT_TOPOLOGY")
	if folder == "" {
		folder = "../../../shared/topology"
	}
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("needs the topology corpus, which is not at %s: PEERDIRECT_TOPOLOGY names its folder", folder)
	}
	tars, _ := filepath.Glob(filepath.Join(folder, "sysfs", name+".tar.*"))
	if len(tars) != 1 {
		t.Fatalf("%s in %s: %v", name, folder, tars)
	}
	root, err := sysroot.Open(tars[0])
	if err != nil {
		t.Fatal(err)
	}
	return NewSystem(root, false)
}

// look runs the checks of devices and ways over a machine.
func look(t *testing.T, s *System) *Report {
	t.Helper()
	r := &Report{}
	for _, c := range slices.Concat(rdmaChecks, pathChecks) {
		if !c.Live {
			r.Checked = append(r.Checked, Checked{c, runCheck(t, s, c.Name)})
		}
	}
	return r
}

// of prints what one check found.
func (r *Report) of(name string) string {
	i := slices.IndexFunc(r.Checked, func(c Checked) bool { return c.Check.Name == name })
	return told(r.Checked[i].Findings)
}

// Captures of machines that work: what they lack is unknown, and nothing is called a
// fault that is none.
func TestCapturesOfGPUNodes(t *testing.T) {
	for _, c := range []struct {
		name  string
		wants map[string]string // check: words
	}{
		{"p5.48xl-topo", map[string]string{
			"rdma-devices": "ok rdmap79s0|ok rdmap201s0",
			"p2p":          "unknown GPU0 -> rdmap79s0, GPU0 -> rdmap80s0, GPU0 -> rdmap81s0, GPU0 -> rdmap82s0 and 28 more: whether it is direct cannot be told: a bridge is above both",
			"pairing":      "ok GPU0 (0000:53:00.0): rails rdmap79s0, rdmap80s0, rdmap81s0, rdmap82s0 (PIX)|!share",
			"acs":          "unknown 0000:46:01.0",
		}},
		{"p4d.24xl-topo", map[string]string{
			"rdma-devices": "ok rdmap16s27|ok rdmap160s27",
			"p2p":          "unknown GPU0 -> rdmap16s27, GPU1 -> rdmap16s27|no bridge is above both",
			"pairing":      "ok GPU0 (0000:10:1c.0): rails rdmap16s27 (PHB)|note rdmap16s27 (0000:10:1b.0): 2 accelerators share it: GPU0, GPU1",
		}},
		{"g5.48xl-topo", map[string]string{
			"rdma-devices": "ok rdmap0s21",
			"p2p":          "unknown GPU0 -> rdmap0s21",
			"pairing":      "note rdmap0s21 (0000:00:15.0): 8 accelerators share it|where devices sit is not told",
		}},
		{"coral-lassen", map[string]string{
			"rdma-devices": "ok mlx5_0|ok mlx5_3",
			"p2p":          "unknown GPU0 -> mlx5_0, GPU1 -> mlx5_1, GPU2 -> mlx5_2, GPU3 -> mlx5_3",
		}},
		{"32intel64-2p8co2t+8ve", map[string]string{
			"rdma-devices":        "unknown NIC0 (0000:1a:00.0), NIC1 (0000:3e:00.0): its driver mlx5_core made no RDMA device, or the capture left it out",
			"accelerator-drivers": "ok GPU0|ok GPU7",
			"pcie-links":          "ok GPU0 (|ok NIC0 (|!warn",
			"bar-size":            "ok GPU0 (|ok GPU7 (",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := look(t, captured(t, c.name))
			if worst, _ := r.Worst(); worst >= Warn {
				t.Errorf("the worst verdict is %v\n%s", worst, told(r.Findings()))
			}
			for check, words := range c.wants {
				want(t, r.of(check), words)
			}
		})
	}
}

// Captures of machines that lack something, each of which is named.
func TestCapturesThatLackSomething(t *testing.T) {
	for _, c := range []struct {
		name  string
		worst Verdict
		cause Cause
		check string
		words string
	}{
		// Sixteen GPUs, and no NIC was captured.
		{"nvidiaDGX2", Fail, CauseNoDevice, "rdma-devices", "fail : there is no RDMA device, and no NIC that is known to be able to have one {no-device}\n"},
		{"linux-amd64-accel-nvidia", Fail, CauseNoDevice, "rdma-devices", "fail : there is no RDMA device"},
		// The one NIC is in the other socket for half of the GPUs.
		{"epyc-corona-p2", Warn, CauseOther, "pairing", "warn GPU0 (0000:03:00.0), mlx5_0 (0000:c4:00.0): GPU0 (0000:03:00.0) of NUMA node 0 has a rail in node 1|!warn GPU6"},
		// mlx4 registers no dma-bufs in any kernel.
		{"32em64t-2n8c+dax+nvme+mic+dimms", Fail, CauseUnsupported, "dmabuf-import", "fail mlx4_0: its driver registers no dma-bufs"},
		// A port of 25 Gb/s on one of InfiniBand's lanes, with errors counted.
		{"procfs-pci-infiniband-subset", Warn, CauseOther, "rdma-rate", "warn mlx5_0: one lane of the link is up (1X)"},
		{"procfs-pci-infiniband-subset", Warn, CauseOther, "rdma-counters", "note mlx5_0: errors were counted since the driver was loaded: local_ack_timeout_err 131"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := look(t, captured(t, c.name))
			if worst, cause := r.Worst(); worst != c.worst || cause != c.cause {
				t.Errorf("the worst verdict is %v {%v}, want %v {%v}\n%s", worst, cause, c.worst, c.cause, told(r.Findings()))
			}
			want(t, r.of(c.check), c.words)
		})
	}
}
