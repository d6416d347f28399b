//go:build lab

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/peerdirect/peerdirect/internal/inventory"
)

// labDevice names the guest's device.
func labDevice(t *testing.T) string {
	t.Helper()
	name := os.Getenv("PEERDIRECT_DEVICE")
	if name == "" {
		t.Skip("needs a lab guest with an RDMA device: run make test-lab")
	}
	return name
}

// output runs a command that must succeed.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, &stderr)
	}
	return string(out)
}

// shown is what peerdirect devices --json prints.
func shown(t *testing.T, args ...string) inventory.Inventory {
	t.Helper()
	var inv inventory.Inventory
	d := json.NewDecoder(strings.NewReader(output(t, "peerdirect", append([]string{"devices", "--json"}, args...)...)))
	d.DisallowUnknownFields()
	if err := d.Decode(&inv); err != nil {
		t.Fatal(err)
	}
	return inv
}

// word prints a value that may be unknown.
func word[T any](v *T) string {
	if v == nil {
		return "null"
	}
	return fmt.Sprint(*v)
}

// number prints a mask the way a C format would.
func number(format string, h *inventory.Hex) string {
	if h == nil {
		return "null"
	}
	return fmt.Sprintf(format, h.Value)
}

// sysfs has a file for most of it; each file must be known here.
func TestDevicesShowsAllThatSysfsShows(t *testing.T) {
	name := labDevice(t)
	d := &shown(t, "--device", name).Devices[0]
	p := &d.Ports[0]
	root := "/sys/class/infiniband/" + name
	code := func(s string) string { _, s, _ = strings.Cut(s, ": "); return s }
	rate := fmt.Sprintf("%g Gb/sec (%sX %s)", float64(*p.Rate)/1000, word(p.Width), word(p.SpeedName))
	ours := map[string]string{
		"node_desc": word(d.NodeDesc), "node_guid": word(d.NodeGUID), "sys_image_guid": word(d.SystemGUID), "parent": word(p.Netdev),
		"hca_type": word(d.HCAType), "board_id": word(d.BoardID), "hw_rev": number("%x", d.Hardware),
		"ports/1/state": word(p.State), "ports/1/rate": rate, "ports/1/lid": number("0x%x", p.LID), "ports/1/sm_lid": number("0x%x", p.SMLID),
		"ports/1/sm_sl": word(p.SMSL), "ports/1/lid_mask_count": word(p.LMC), "ports/1/link_layer": word(p.LinkLayer),
		"ports/1/cap_mask": number("0x%08x", &p.Capabilities.Value),
	}
	for _, folder := range []string{"", "ports/1"} {
		files, err := os.ReadDir(filepath.Join(root, folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !f.Type().IsRegular() || f.Name() == "uevent" {
				continue
			}
			key := filepath.Join(folder, f.Name())
			b, err := os.ReadFile(filepath.Join(root, key))
			if err != nil {
				t.Errorf("%s: %v", key, err)
				continue
			}
			want, got := strings.TrimSpace(string(b)), ours[key]
			switch key {
			case "fw_ver": // the library prints 0.0.0 for none
				if want == "" {
					continue
				}
				got = word(d.Firmware)
			case "node_type":
				want, got = strings.ToLower(code(want)), word(d.NodeType)
			case "ports/1/state":
				want = code(want)
			case "ports/1/phys_state":
				want, got = strings.ToUpper(code(want)), strings.ReplaceAll(word(p.PhysicalState), "_", "")
			}
			if got != want {
				t.Errorf("sysfs: %s is %q, we show %q", key, want, got)
			}
		}
	}
	used := 0
	files, err := os.ReadDir(root + "/ports/1/gids")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(root + "/ports/1/gids/" + f.Name())
		text := strings.TrimSpace(string(b))
		if err != nil || text == "0000:0000:0000:0000:0000:0000:0000:0000" {
			continue
		}
		used++
		if !slices.ContainsFunc(p.GIDs, func(g inventory.GID) bool { return g.GID == text && strconv.Itoa(g.Index) == f.Name() }) {
			t.Errorf("GID %s %s is missing", f.Name(), text)
		}
	}
	if used != len(p.GIDs) {
		t.Errorf("sysfs has %d GIDs, we show %d", used, len(p.GIDs))
	}
	driver := strings.TrimRight(name, "0123456789")
	if word(d.Driver) != driver || word(d.Software) != "true" || d.PCI != nil || d.NUMANode != nil {
		t.Errorf("driver %s, software %s, function %+v, NUMA node %v", word(d.Driver), word(d.Software), d.PCI, word(d.NUMANode))
	}
	if _, err := os.Stat("/sys/module/" + word(d.Module)); err != nil {
		t.Errorf("kernel module: %v", err)
	}
	if word(d.DMABuf) != "false" {
		t.Errorf("dma-buf import is %s; no software driver imports", word(d.DMABuf))
	}
	if i := slices.IndexFunc(d.Netdevs, func(n inventory.Netdev) bool { return n.Name == *p.Netdev }); i < 0 || d.Netdevs[i].PCIAddress == nil {
		t.Errorf("network devices %+v", d.Netdevs)
	}
}

func TestDevicesErrorsInTheLab(t *testing.T) {
	name := labDevice(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--device", "mlx5_77"}, exitNoDevice, name},
		{[]string{"--watch", "--device", "mlx5_77"}, exitNoDevice, name},
		{[]string{"--ib-port", "9"}, exitUsage, name + " has port 1"},
		{[]string{"--watch", "--device", name, "--ib-port", "9"}, exitUsage, name + " has port 1"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"devices"}, c.args...), strings.NewReader(""), &stdout, &stderr)
		if code != c.code || !strings.Contains(stderr.String(), c.want) || stdout.Len() > 0 {
			t.Errorf("%q: exit %d, stdout %q, stderr %q; want exit %d and %q", c.args, code, &stdout, &stderr, c.code, c.want)
		}
	}
}

// A user who may not open the device sees what the kernel tells everyone.
func TestDevicesWithoutPermission(t *testing.T) {
	name := labDevice(t)
	d := &shown(t, "--device", name).Devices[0]
	info, err := os.Stat(*d.CharDevice)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(*d.CharDevice, 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(*d.CharDevice, info.Mode())
	cmd := exec.Command("peerdirect", "devices", "--json", "--device", name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var inv inventory.Inventory
	if err != nil || json.Unmarshal(out, &inv) != nil {
		t.Fatalf("%v\n%s%s", err, out, &stderr)
	}
	if len(inv.Problems) != 1 || inv.Problems[0].Class != "permission" || !strings.Contains(stderr.String(), *d.CharDevice) {
		t.Errorf("problems %+v, stderr %q", inv.Problems, &stderr)
	}
	p := inv.Devices[0].Ports[0]
	if word(p.State) != word(d.Ports[0].State) || word(p.Netdev) != word(d.Ports[0].Netdev) || len(p.GIDs) != len(d.Ports[0].GIDs) || inv.Devices[0].Resources == nil {
		t.Errorf("port %+v, resources %v", p, inv.Devices[0].Resources)
	}
	if inv.Devices[0].Limits != nil || inv.Devices[0].DMABuf != nil || p.MaxMTU != nil {
		t.Errorf("limits %v, dma-buf %v and MTU %v can not be known", inv.Devices[0].Limits, inv.Devices[0].DMABuf, p.MaxMTU)
	}
}

// Without rdma-core the kernel's part is shown, and the command fails.
func TestDevicesWithoutLibrary(t *testing.T) {
	name := labDevice(t)
	library := shown(t).Library
	cmd := exec.Command("unshare", "-m", "sh", "-c", `mount --bind /dev/null "$0" && exec peerdirect devices --device "$1"`, *library, name)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != exitNoDevice {
		t.Errorf("exit %d, %v", code, err)
	}
	if strings.Count(stderr.String(), "\n") != 1 || !strings.Contains(stderr.String(), "rdma-core is not installed") || !strings.Contains(stdout.String(), name+" ") {
		t.Errorf("stdout\n%s\nstderr\n%s", &stdout, &stderr)
	}
}
