package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/inventory"
)

// writeRoot writes a captured system: lines "path = content" and "path -> target".
func writeRoot(t *testing.T, text string) string {
	t.Helper()
	root := t.TempDir()
	for line := range strings.Lines(text) {
		path, content, file := strings.Cut(strings.TrimSpace(line), " = ")
		target := ""
		if !file {
			path, target, _ = strings.Cut(path, " -> ")
		}
		if path == "" {
			continue
		}
		path = filepath.Join(root, path)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch {
		case err != nil:
		case file:
			err = os.WriteFile(path, []byte(content+"\n"), 0o644)
		default:
			err = os.Symlink(target, path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const capturedEFA = `
sys/class/infiniband/rdmap16s27 -> ../../devices/pci0000:10/0000:10:1b.0/infiniband/rdmap16s27
sys/devices/pci0000:10/0000:10:1b.0/infiniband/rdmap16s27/node_type = 7: unspecified
sys/devices/pci0000:10/0000:10:1b.0/infiniband/rdmap16s27/ports/1/state = 4: ACTIVE
sys/devices/pci0000:10/0000:10:1b.0/infiniband/rdmap16s27/ports/1/rate = 100 Gb/sec (4X EDR)
sys/devices/pci0000:10/0000:10:1b.0/infiniband/rdmap16s27/ports/1/link_layer = Unspecified
sys/devices/pci0000:10/0000:10:1b.0/numa_node = 0
sys/devices/pci0000:10/0000:10:1b.0/driver -> ../../../bus/pci/drivers/efa
`

func devices(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), append([]string{"devices"}, args...), strings.NewReader(""), &out, &err)
	return code, out.String(), err.String()
}

func TestDevicesUsage(t *testing.T) {
	root := writeRoot(t, capturedEFA)
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"argument":             {[]string{"rxe0"}, exitUsage, "rxe0"},
		"unknown flag":         {[]string{"--no-such-flag"}, exitUsage, "no-such-flag"},
		"no name":              {[]string{"--device", ""}, exitUsage, "--device"},
		"no number":            {[]string{"--ib-port", "one"}, exitUsage, "one"},
		"port 0":               {[]string{"--ib-port", "0"}, exitUsage, "from 1"},
		"watch and verbose":    {[]string{"--watch", "-v"}, exitUsage, "--watch"},
		"watch a capture":      {[]string{"--watch", "--sysroot", root}, exitUsage, "--sysroot"},
		"interval alone":       {[]string{"--interval", "2s"}, exitUsage, "--watch"},
		"interval too short":   {[]string{"--watch", "--interval", "1ms"}, exitUsage, "50ms"},
		"no such folder":       {[]string{"--sysroot", root + "/missing"}, exitFailed, "missing"},
		"no folder":            {[]string{"--sysroot", root + "/sys/devices/pci0000:10/0000:10:1b.0/numa_node"}, exitUsage, "no directory"},
		"nothing in a capture": {[]string{"--sysroot", t.TempDir()}, exitNoDevice, "no RDMA device"},
		"wrong name":           {[]string{"--sysroot", root, "--device", "mlx5_0"}, exitNoDevice, "there is rdmap16s27"},
		"wrong port":           {[]string{"--sysroot", root, "--ib-port", "2"}, exitUsage, "rdmap16s27 has port 1"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := devices(t, c.args...)
			if code != c.code || !strings.Contains(stderr, c.want) || stdout != "" {
				t.Errorf("exit %d, stdout %q, stderr %q; want exit %d and %q", code, stdout, stderr, c.code, c.want)
			}
			if code == exitNoDevice && strings.Count(stderr, "\n") != 1 {
				t.Errorf("not one line: %q", stderr)
			}
		})
	}
}

func TestDevicesOfACapture(t *testing.T) {
	root := writeRoot(t, capturedEFA)
	code, stdout, stderr := devices(t, "--sysroot", root)
	want := `DEVICE      PORT  STATE   LINK         RATE     MTU  NETDEV  DRIVER  PCI           NUMA  DMABUF  GID
rdmap16s27  1     ACTIVE  Unspecified  100Gb/s  ?    -       efa     0000:10:1b.0  0     ?       -
`
	if code != exitOK || stdout != want || stderr != "" {
		t.Errorf("exit %d, stderr %q, stdout\n%s\nwant\n%s", code, stderr, stdout, want)
	}
	code, stdout, stderr = devices(t, "--sysroot", root, "--json")
	var inv inventory.Inventory
	if err := json.Unmarshal([]byte(stdout), &inv); err != nil || code != exitOK || stderr != "" {
		t.Fatalf("exit %d, stderr %q, %v", code, stderr, err)
	}
	if inv.Schema != inventory.Schema || inv.Kernel != nil || len(inv.Devices) != 1 || inv.Devices[0].PCI.Address != "0000:10:1b.0" {
		t.Errorf("%s", stdout)
	}
	code, stdout, _ = devices(t, "--sysroot", root, "-v", "--device", "rdmap16s27", "--ib-port", "1")
	if code != exitOK || !strings.Contains(stdout, "dmabuf import                     unknown") || !strings.Contains(stdout, "  Port 1\n") {
		t.Errorf("exit %d, stdout\n%s", code, stdout)
	}
}

func TestDevicesWithoutRDMA(t *testing.T) {
	if _, err := os.Stat("/sys/class/infiniband"); err == nil {
		t.Skip("needs a machine without RDMA, as the host of the lab is")
	}
	for _, args := range [][]string{nil, {"-v"}, {"--json"}, {"--watch"}, {"--watch", "--json"}, {"--device", "rxe0"}} {
		code, stdout, stderr := devices(t, args...)
		if code != exitNoDevice || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "no RDMA device") {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}
