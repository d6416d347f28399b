//go:build lab

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/internal/inventory"
)

// watching runs peerdirect devices --watch --json.
type watching struct {
	cmd     *exec.Cmd
	records chan inventory.Record
	seen    []inventory.Record
	stderr  bytes.Buffer
}

func startWatching(t *testing.T, args ...string) *watching {
	t.Helper()
	w := &watching{cmd: exec.Command("peerdirect", append([]string{"devices", "--watch", "--json", "--interval", "500ms"}, args...)...), records: make(chan inventory.Record, 1000)}
	w.cmd.Stderr = &w.stderr
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.records)
		for s := bufio.NewScanner(out); s.Scan(); {
			var r inventory.Record
			if json.Unmarshal(s.Bytes(), &r) == nil && r.Schema == inventory.WatchSchema {
				w.records <- r
			}
		}
	}()
	t.Cleanup(func() {
		if w.cmd.ProcessState == nil {
			w.cmd.Process.Kill()
			w.cmd.Wait()
		}
	})
	return w
}

// expect waits for a record, which may have come already.
func (w *watching) expect(t *testing.T, what string, ok func(inventory.Record) bool) {
	t.Helper()
	if slices.ContainsFunc(w.seen, ok) {
		return
	}
	timeout := time.After(30 * time.Second)
	for {
		select {
		case r, open := <-w.records:
			if !open {
				t.Fatalf("%s: the watch ended: %s", what, &w.stderr)
			}
			w.seen = append(w.seen, r)
			if ok(r) {
				return
			}
		case <-timeout:
			var b strings.Builder
			for _, r := range w.seen {
				r.WriteText(&b)
			}
			t.Fatalf("%s: no such record in 30 s; seen:\n%s%s", what, &b, &w.stderr)
		}
	}
}

func event(kind, device string) func(inventory.Record) bool {
	return func(r inventory.Record) bool { return r.Event == kind && word(r.Device) == device }
}

func changed(device, field, to string) func(inventory.Record) bool {
	return func(r inventory.Record) bool {
		return event(inventory.EventChanged, device)(r) && word(r.Field) == field && strings.HasPrefix(word(r.To), to) && word(r.Port) == "1"
	}
}

func notified(source, device, detail string) func(inventory.Record) bool {
	return func(r inventory.Record) bool {
		return event(inventory.EventNotified, device)(r) && r.Source == source && strings.HasPrefix(word(r.Detail), detail)
	}
}

func TestWatchSeesDevicesAndPortsComeAndGo(t *testing.T) {
	name := labDevice(t)
	kind := strings.TrimRight(name, "0123456789")
	const netdev, second = "pdwatch0", "pdwatch"
	exec.Command("modprobe", "dummy").Run()
	output(t, "ip", "link", "add", netdev, "type", "dummy")
	t.Cleanup(func() { exec.Command("ip", "link", "del", netdev).Run() })
	output(t, "ip", "link", "set", netdev, "up")

	monitor := shown(t, "--device", name).System.Monitor
	w := startWatching(t)
	w.expect(t, "the device at the start", event(inventory.EventPresent, name))
	output(t, "rdma", "link", "add", second, "type", kind, "netdev", netdev)
	t.Cleanup(func() { exec.Command("rdma", "link", "del", second).Run() })
	w.expect(t, "link add", event(inventory.EventAdded, second))
	w.expect(t, "the new port", event(inventory.EventPresent, second))
	if monitor {
		w.expect(t, "the kernel's notification", notified("netlink", second, "REGISTER"))
		w.expect(t, "the kernel's notification", notified("netlink", second, "NETDEV_ATTACH "+netdev))
	}

	output(t, "ip", "link", "set", netdev, "down")
	w.expect(t, "port down", changed(second, "state", "DOWN"))
	w.expect(t, "the device's event", notified("async", second, "port error"))
	output(t, "ip", "link", "set", netdev, "up")
	w.expect(t, "port up", changed(second, "state", "ACTIVE"))
	w.expect(t, "the device's event", notified("async", second, "port active"))
	if kind == "rxe" {
		output(t, "ip", "addr", "add", "198.51.100.7/24", "dev", netdev)
		w.expect(t, "the new GID", func(r inventory.Record) bool {
			return event(inventory.EventChanged, second)(r) && strings.HasPrefix(word(r.Field), "gids[") && word(r.To) == "198.51.100.7 RoCE v2"
		})
		w.expect(t, "the device's event", notified("async", second, "GID change"))
	}

	// The watch holds the device open; it must not hold up its removal.
	start := time.Now()
	output(t, "rdma", "link", "del", second)
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("removing the device took %v while it was watched", took)
	}
	w.expect(t, "link del", event(inventory.EventRemoved, second))
	if monitor {
		w.expect(t, "the kernel's notification", notified("netlink", second, "UNREGISTER"))
	}

	if err := w.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for range w.records {
	}
	if err := w.cmd.Wait(); err != nil || w.stderr.Len() > 0 {
		t.Errorf("interrupted, the watch ended with %v: %s", err, &w.stderr)
	}
}
