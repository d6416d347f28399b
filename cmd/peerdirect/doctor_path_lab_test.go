//go:build lab

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/pci"
)

// The lab's EFA devices with its accelerator: nothing fails, and what the doctor says
// of dma-bufs is what comes of registering one.
func TestEFADoctor(t *testing.T) {
	devices := strings.Split(os.Getenv("PEERDIRECT_EFA"), ",")
	if devices[0] == "" {
		t.Skip("needs a lab guest with EFA devices: lab run --efa 2")
	}
	d := doctorSays(t, nil)
	if len(d.of("fail")) > 0 || d.Exit != exitOK {
		t.Errorf("what fails: %q; exit code %d", d.of("fail"), d.Exit)
	}
	buf := exported(t)
	for _, name := range devices {
		said := d.find("dmabuf-import")
		i := slices.IndexFunc(said, func(f diagnosed) bool { return word(f.Subject) == name })
		if i < 0 || said[i].Verdict != "ok" {
			t.Errorf("of %s it says %v", name, said)
		}
		if err := registers(t, name, buf); err != nil {
			t.Errorf("%s does not: %v", name, err)
		}
	}
}

// An EFA function that lost its driver is missed, and named; with its driver all is
// well again.
func TestEFADoctorMissesADevice(t *testing.T) {
	devices := strings.Split(os.Getenv("PEERDIRECT_EFA"), ",")
	if len(devices) < 2 {
		t.Skip("needs a lab guest with two EFA devices: lab run --efa 2")
	}
	link, err := filepath.EvalSymlinks("/sys/class/infiniband/" + devices[1] + "/device")
	if err != nil {
		t.Fatal(err)
	}
	address := filepath.Base(link)
	write := func(file string) {
		t.Helper()
		if err := os.WriteFile("/sys/bus/pci/drivers/efa/"+file, []byte(address), 0o200); err != nil {
			t.Fatal(err)
		}
	}
	mayUnbind(t)
	write("unbind")
	bound := false
	defer func() {
		if !bound {
			write("bind")
		}
	}()
	d := doctorSays(t, nil, "--only", "rdma-devices,modules")
	f := d.find("rdma-devices")
	i := slices.IndexFunc(f, func(f diagnosed) bool { return strings.Contains(word(f.Subject), address) })
	if i < 0 || f[i].Verdict != "warn" || !strings.Contains(f[i].Summary, "no driver is bound") || len(f) != len(devices) {
		t.Errorf("without the driver: %v", f)
	}
	write("bind")
	bound = true
	f = doctorSays(t, nil, "--only", "rdma-devices").find("rdma-devices")
	if len(f) != len(devices) || slices.ContainsFunc(f, func(f diagnosed) bool { return f.Verdict != "ok" }) {
		t.Errorf("with the driver: %v", f)
	}
}

// mayUnbind fails where this process holds an RDMA device: in the unbind the kernel would
// wait for it to let go, and it would wait for the kernel, without end. A mapping holds it
// as a descriptor does.
func mayUnbind(t *testing.T) {
	t.Helper()
	const node = "/dev/infiniband/uverbs"
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, node) {
			t.Fatalf("this process maps %s", line)
		}
	}
	open, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range open {
		if file, _ := os.Readlink(fd); strings.HasPrefix(file, node) {
			t.Fatalf("this process has %s open", file)
		}
	}
}

// judged holds each way that the doctor judges to what the kernel does with a
// registration of the accelerator's memory by the NIC.
func judged(t *testing.T, topo *pci.Topology, d diagnosis) (ways map[string]int) {
	t.Helper()
	memory := labMemory(t, topo)
	pairing, err := topo.Pair(pci.PairOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ways = map[string]int{}
	said := d.find("p2p")
	for _, p := range pairing.Pairs {
		for _, nic := range p.Rails {
			name := topo.Name(p.Accelerator) + " -> " + topo.Name(nic)
			i := slices.IndexFunc(said, func(f diagnosed) bool {
				return slices.ContainsFunc(f.Evidence, func(e string) bool { return strings.HasPrefix(e, name+": ") })
			})
			if i < 0 {
				t.Errorf("nothing is said of %s", name)
				continue
			}
			verdict, allowed := said[i].Verdict, kernelAllows(t, memory[p.Accelerator], domain(t, nic))
			if (verdict == "ok" || verdict == "note") != allowed || verdict == "unknown" {
				t.Errorf("%s: it says %v, the kernel lets it pass: %v", name, said[i], allowed)
			}
			ways[verdict]++
		}
	}
	return ways
}

func hex4(word uint16) string { return fmt.Sprintf("%04x", word) }

func TestTopologyDoctorJudgesWays(t *testing.T) {
	topo := guestTopology(t)
	d := doctorSays(t, nil, "--skip", "tracing")
	if len(d.of("fail")) > 0 {
		t.Errorf("what fails: %q", d.of("fail"))
	}
	ways := judged(t, topo, d)
	if ways["ok"] == 0 {
		t.Errorf("no way is direct: %v", ways)
	}
	t.Logf("as the kernel: %v", ways)
}

// A port above an accelerator redirects: the doctor says which and what to do, and
// what it says to do mends it.
func TestTopologyACSDoctor(t *testing.T) {
	topo := guestTopology(t)
	accelerator := topo.Of(pci.Accelerator)[0]
	port := accelerator.Parent
	if port == nil || port.ACS == nil {
		t.Skip("needs a lab guest with access control above an accelerator: lab run --efa 2 --accelerator 1 --acs")
	}
	set := func(word string) { output(t, "setpci", "-s", port.Address.String(), "ECAP_ACS+6.w="+word) }
	booted := port.ACS.Control
	defer func() { set(hex4(booted)) }()
	set(hex4(pci.ACSSourceValidation | pci.ACSRequestRedirect | pci.ACSCompletionRedirect | pci.ACSUpstreamForward))

	d := doctorSays(t, nil)
	way := "p2p " + topo.Name(accelerator) + " -> " + topo.Name(topo.Rails(accelerator)[0])
	if fails := d.of("fail"); !slices.Equal(fails, []string{way}) || d.Exit != exitFailed {
		t.Errorf("what fails: %q, want %q; exit code %d", fails, way, d.Exit)
	}
	acs := d.find("acs")
	if len(acs) != 1 || acs[0].Verdict != "warn" || word(acs[0].Subject) != port.Address.String() || len(acs[0].Commands) != 1 {
		t.Fatalf("of access control it says %+v", acs)
	}
	if ways := judged(t, guestTopology(t), d); ways["fail"] != 1 {
		t.Errorf("ways: %v", ways)
	}

	output(t, "sh", "-c", acs[0].Commands[0])
	d = doctorSays(t, nil, "--only", "paths")
	if fails := d.of("fail"); len(fails) > 0 || d.Exit != exitOK || d.find("acs")[0].Verdict != "ok" {
		t.Errorf("after %q: what fails: %q, of access control %v", acs[0].Commands[0], fails, d.find("acs"))
	}
	if ways := judged(t, guestTopology(t), d); ways["ok"] != 1 {
		t.Errorf("ways after it: %v", ways)
	}
}
