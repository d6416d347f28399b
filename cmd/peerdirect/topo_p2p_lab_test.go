//go:build lab

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/internal/sysroot"
	"github.com/peerdirect/peerdirect/pci"
	"github.com/peerdirect/peerdirect/verbs"
)

// guestTopology reads the guest, which has accelerators and EFA devices on switches
// and a kernel that judges peer-to-peer traffic.
func guestTopology(t *testing.T) *pci.Topology {
	t.Helper()
	if os.Getenv("PEERDIRECT_ACCELERATORS") == "" || os.Getenv("PEERDIRECT_EFA") == "" {
		t.Skip("needs a lab guest with accelerators and EFA devices: lab run --efa 32 --accelerator 8 --memory 1536")
	}
	config, err := os.ReadFile("/boot/config-" + strings.TrimSpace(output(t, "uname", "-r")))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(config), "\nCONFIG_PCI_P2PDMA=y\n") {
		t.Skip("needs a kernel with CONFIG_PCI_P2PDMA: this one lets every device have it")
	}
	root, err := sysroot.Dir("/")
	if err != nil {
		t.Fatal(err)
	}
	topo, err := pci.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// domain opens a NIC.
func domain(t *testing.T, nic *pci.Device) *verbs.PD {
	t.Helper()
	dev, err := verbs.Open(nic.RDMA[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pd.Close(); dev.Close() })
	return pd
}

// kernelAllows asks the kernel whether a NIC may reach an accelerator's memory, by
// registering some.
func kernelAllows(t *testing.T, buf *dmabuf.Buffer, pd *verbs.PD) bool {
	t.Helper()
	mr, err := pd.RegisterDMABuf(buf.FD(), buf.Offset, buf.Length, 0, verbs.LocalWrite)
	if errors.Is(err, syscall.EREMOTEIO) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := mr.Close(); err != nil {
		t.Error(err)
	}
	return true
}

// labMemory gives memory of each of the lab's accelerators, by its function.
func labMemory(t *testing.T, topo *pci.Topology) map[*pci.Device]*dmabuf.Buffer {
	t.Helper()
	memory := map[*pci.Device]*dmabuf.Buffer{}
	for i, name := range strings.Split(os.Getenv("PEERDIRECT_ACCELERATORS"), ",") {
		link, err := os.Readlink(fmt.Sprintf("/sys/class/misc/peerdirect_accel%d/device", i))
		if err != nil {
			t.Fatal(err)
		}
		a, err := pci.ParseAddress(filepath.Base(link))
		if err != nil {
			t.Fatal(err)
		}
		d := topo.Device(a)
		if d == nil || d.Kind != pci.Accelerator {
			t.Fatalf("%s is %s, no accelerator of the topology", name, a)
		}
		x, err := dmabuf.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		mem, err := x.Allocate(64 << 10)
		if err != nil {
			t.Fatal(err)
		}
		buf, err := mem.Export(0, mem.Size())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { buf.Close(); mem.Close() })
		memory[d] = buf
	}
	return memory
}

// The verdict for every accelerator and every NIC is the kernel's own.
func TestTopologyP2PIsTheKernels(t *testing.T) {
	topo := guestTopology(t)
	memory := labMemory(t, topo)
	counts := map[string]int{}
	for _, nic := range topo.Of(pci.RDMANIC) {
		pd := domain(t, nic)
		for _, a := range topo.Of(pci.Accelerator) {
			verdict, allowed := topo.P2P(a, nic), kernelAllows(t, memory[a], pd)
			if verdict.Allowed == pci.Unknown || (verdict.Allowed == pci.Yes) != allowed {
				t.Errorf("%s to %s: we say %s (%s), the kernel %v", topo.Name(nic), topo.Name(a), verdict.Allowed, verdict.Reason, allowed)
			}
			counts[fmt.Sprintf("%s, by %s", verdict.Allowed, verdict.Through)]++
		}
	}
	if len(counts) < 2 {
		t.Errorf("only one verdict: %v", counts)
	}
	t.Logf("as the kernel: %v", counts)
}

// A port above an accelerator has access control (lab run --acs). The kernel, the
// verdict and the finding follow what setpci writes there.
func TestTopologyACSTurnsPeersAway(t *testing.T) {
	topo := guestTopology(t)
	accelerator := topo.Of(pci.Accelerator)[0]
	port := accelerator.Parent
	if port == nil || port.ACS == nil {
		t.Skip("needs a lab guest with access control above an accelerator: lab run --efa 2 --accelerator 1 --acs")
	}
	buf := labMemory(t, topo)[accelerator]
	i := slices.IndexFunc(topo.Of(pci.RDMANIC), func(d *pci.Device) bool { return d.Node == accelerator.Node })
	nic := topo.Of(pci.RDMANIC)[i]
	pd := domain(t, nic)
	booted := port.ACS.Control
	set := func(word uint16) {
		output(t, "setpci", "-s", port.Address.String(), fmt.Sprintf("ECAP_ACS+6.w=%04x", word))
	}
	defer set(booted)
	if _, err := os.Stat("/sys/class/iommu/dmar0"); err == nil && booted&pci.ACSRequestRedirect == 0 {
		t.Errorf("with an IOMMU the kernel turns access control on; here it is %#04x", booted)
	}
	for _, c := range []struct {
		word           uint16
		allowed, found bool
	}{
		{booted, booted&(pci.ACSRequestRedirect|pci.ACSCompletionRedirect) == 0, booted != 0},
		{0, true, false},
		{pci.ACSSourceValidation, true, false}, // harmless alone
		{pci.ACSRequestRedirect, false, true},
		{pci.ACSCompletionRedirect, false, true},
		{pci.ACSUpstreamForward, true, true}, // the kernel does not look at it
		{pci.ACSDirectTranslated, true, false},
		{0, true, false},
	} {
		set(c.word)
		now := guestTopology(t)
		a, n := now.Device(accelerator.Address), now.Device(nic.Address)
		verdict := now.P2P(a, n)
		if got := verdict.Allowed == pci.Yes; got != c.allowed || verdict.Allowed == pci.Unknown {
			t.Errorf("%#04x: the verdict is %s: %s", c.word, verdict.Allowed, verdict.Reason)
		}
		if got := kernelAllows(t, buf, pd); got != c.allowed {
			t.Errorf("%#04x: the kernel lets it pass: %v", c.word, got)
		}
		if redirects := slices.Contains(verdict.Redirects, a.Parent); redirects == c.allowed {
			t.Errorf("%#04x: redirects at %v", c.word, verdict.Redirects)
		}
		f := slices.IndexFunc(now.Findings(), func(f pci.Finding) bool { return f.Code == pci.FindingACSRedirect })
		if f >= 0 != c.found {
			t.Errorf("%#04x: found: %v", c.word, f >= 0)
		} else if f >= 0 && !slices.Contains(now.Findings()[f].Devices, a.Parent) {
			t.Errorf("%#04x: the finding is about %v", c.word, now.Findings()[f].Devices)
		}
		t.Logf("%s %#04x: %s by %s, found %v", port.Address, c.word, verdict.Allowed, verdict.Through, f >= 0)
	}
}
