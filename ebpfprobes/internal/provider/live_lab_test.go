//go:build lab

package provider

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLiveAgainstTable holds what a library's table says to the pointers of a process
// that has a device of it open: two ways that know nothing of each other.
func TestLiveAgainstTable(t *testing.T) {
	devices, _ := os.ReadDir("/sys/class/infiniband")
	if len(devices) == 0 {
		t.Skip("needs an RDMA device: run in the lab with --link rxe or --efa 1")
	}
	transport := "rc"
	if strings.HasPrefix(devices[0].Name(), "efa") {
		transport = "srd"
	}
	program := filepath.Join(t.TempDir(), "poller")
	if out, err := exec.Command("gcc", "-O2", "-o", program, "../../testdata/poller.c", "-libverbs", "-lefa").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(program, devices[0].Name(), transport, "extended", "64", "1")
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	process, err := OpenProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	live, err := process.Live()
	if err != nil || len(live) != 1 || live[0].Device != devices[0].Name() {
		t.Fatalf("%+v, %v", live, err)
	}
	l, file, _, err := process.Open(live[0].Library)
	if err != nil {
		t.Fatal(err)
	}
	table, err := l.Operations()
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range []Role{PollCQ, PostSend, PostRecv} {
		var offsets []uint64
		for _, a := range table[role] {
			o, err := l.Offset(a)
			if err != nil {
				t.Fatal(err)
			}
			offsets = append(offsets, o)
		}
		t.Logf("%s %s: live %#x, table %#x", file, role, live[0].Found[role], offsets)
		if !slices.Equal(offsets, live[0].Found[role]) {
			t.Errorf("%s: they differ", role)
		}
	}
	for _, role := range []Role{StartPoll, NextPoll, EndPoll, WRComplete, "wr_send"} {
		if len(live[0].Found[role]) != 1 {
			t.Errorf("%s: %#x", role, live[0].Found[role])
		}
	}
}
