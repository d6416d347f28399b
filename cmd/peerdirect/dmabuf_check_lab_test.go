//go:build lab

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/internal/dmabufprobe"
)

// TestEFADMABufCheckByCommand judges a real buffer for a real device.
func TestEFADMABufCheckByCommand(t *testing.T) {
	device, _, _ := strings.Cut(os.Getenv("PEERDIRECT_EFA"), ",")
	if device == "" {
		t.Skip("needs a lab guest with an EFA device: lab run --efa 1")
	}
	if out, err := exec.Command("modprobe", "vgem").CombinedOutput(); err != nil {
		t.Fatalf("modprobe vgem: %v\n%s", err, out)
	}
	exporter, err := dmabuf.Open("vgem") // every kernel of the lab has it
	if err != nil {
		t.Fatal(err)
	}
	mem, err := exporter.Allocate(64 << 10)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	buf, err := mem.Export(0, 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Close()
	for _, c := range []struct {
		args  string
		code  int
		errno string
		rule  string
	}{
		{"--length 64K --access local-write", exitOK, "", ""},
		{"--offset 4K --length 60K --iova 0x1000 --access local-write,remote-read", exitOK, "", ""},
		{"--offset 4K --length 64K --access local-write", exitFailed, "EINVAL", "size"},
		{"--offset 128 --length 4K --access local-write", exitFailed, "EINVAL", "page offset"},
		{"--length 4K --access local-write,remote-atomic", exitFailed, "EOPNOTSUPP", "efa access"},
	} {
		args := append([]string{"check", "--json", "-d", device, "--fd", fmt.Sprint(buf.FD())}, strings.Fields(c.args)...)
		code, stdout, stderr := dmabufRun(t, args...)
		var got dmabufCheck
		if err := json.Unmarshal([]byte(stdout), &got); err != nil {
			t.Fatalf("%v: %s%s", err, stdout, stderr)
		}
		rule := ""
		if f := got.Failing(); f != nil {
			rule = f.Name
		}
		if code != c.code || got.Errno != c.errno || rule != c.rule {
			t.Errorf("%s: exit %d, %s by %q", c.args, code, got.Errno, rule)
		}
		// Of a device and a buffer of this machine everything is known.
		for _, u := range got.Rules {
			if u.Verdict == dmabuf.Unknown {
				t.Errorf("%s: %s is unknown: %s", c.args, u.Name, u.Cause)
			}
		}
	}
}

func TestEFADMABufProbeByCommand(t *testing.T) {
	if os.Getenv("PEERDIRECT_EFA") == "" {
		t.Skip("needs a lab guest with an EFA device: lab run --efa 1")
	}
	// A process of its own: libefa of rdma-core 44 does not let go of a device that it made
	// completion queues on, see mayUnbind.
	stdout := output(t, "peerdirect", "dmabuf", "probe", "--json", "--exporter", "host", "--exporter", "vgem", "--exporter", "cuda")
	var m dmabufprobe.Matrix
	if err := json.Unmarshal([]byte(stdout), &m); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	for _, d := range m.Devices {
		if c := m.Cell("host", d.Name); c == nil || d.Driver == "efa" && c.Verdict != dmabufprobe.Moved {
			t.Errorf("%s: %+v", d.Name, c)
		}
		if c := m.Cell("cuda:0", d.Name); c == nil || c.Verdict != dmabufprobe.Absent {
			t.Errorf("%s: %+v", d.Name, c)
		}
	}
}
