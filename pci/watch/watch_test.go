package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerdirect/peerdirect/pci"
)

// machine is two functions below one root port.
func machine(change func(nic, gpu *pci.Device)) *pci.Topology {
	node := &pci.Node{Number: 0, Present: true, CPUs: pci.CPUs{0, 1}, Memory: -1}
	root := &pci.Root{Name: "pci0000:00", Node: node}
	port := &pci.Device{Address: pci.Address{Device: 1}, Root: root, Kind: pci.Bridge, Port: pci.RootPort, Node: node, Group: -1}
	gpu := &pci.Device{Address: pci.Address{Bus: 1}, Root: root, Parent: port, Kind: pci.Accelerator, Node: node, Group: -1,
		Driver: "nvidia", Link: pci.Link{Speed: 32, MaxSpeed: 32, Width: 16, MaxWidth: 16}}
	nic := &pci.Device{Address: pci.Address{Bus: 1, Function: 1}, Root: root, Parent: port, Kind: pci.RDMANIC, Node: node, Group: -1,
		Driver: "mlx5_core", RDMA: []pci.RDMA{{Name: "mlx5_0", Ports: []pci.RDMAPort{{Number: 1, State: "ACTIVE"}}}}}
	t := &pci.Topology{Roots: []*pci.Root{root}, Nodes: []*pci.Node{node}, Devices: []*pci.Device{port, gpu, nic}}
	if change != nil {
		change(nic, gpu)
	}
	t.Devices = slices.DeleteFunc(t.Devices, func(d *pci.Device) bool { return d.Root == nil })
	pci.Assemble(t)
	return t
}

func lines(records []Record) string {
	var b strings.Builder
	for _, r := range records {
		fmt.Fprintf(&b, "%s %s %s %s %s\n", r.Event, or(r.Address, "-"), or(r.Field, "-"), or(r.From, "?"), or(r.To, "?"))
	}
	return b.String()
}

func TestChangesAreToldByField(t *testing.T) {
	for name, c := range map[string]struct {
		change func(nic, gpu *pci.Device)
		want   string
	}{
		"nothing":       {nil, ""},
		"a link trains": {func(_, gpu *pci.Device) { gpu.Link.Speed = 2.5 }, "changed 0000:01:00.0 link 32GT/s x16 2.5GT/s x16\n"},
		"no driver":     {func(_, gpu *pci.Device) { gpu.Driver = "" }, "changed 0000:01:00.0 driver nvidia none\n"},
		"port down": {func(nic, _ *pci.Device) { nic.RDMA[0].Ports[0].State = "DOWN" },
			"changed 0000:01:00.1 rdma mlx5_0 1:ACTIVE mlx5_0 1:DOWN\n"},
		"removed":      {func(nic, _ *pci.Device) { nic.Root = nil }, "removed 0000:01:00.1 - ? ?\n"},
		"node unknown": {func(nic, _ *pci.Device) { nic.Node = nil }, "changed 0000:01:00.1 node 0 ?\n"},
	} {
		t.Run(name, func(t *testing.T) {
			before, now := newSnapshot(machine(nil), pci.PairOptions{}), newSnapshot(machine(c.change), pci.PairOptions{})
			got := ""
			for line := range strings.Lines(lines(before.compare(now))) {
				// What follows from a change has its own tests.
				if !strings.Contains(line, " rails ") && !strings.Contains(line, " findings ") {
					got += line
				}
			}
			if got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

func TestTheRailsFollowADeviceThatGoes(t *testing.T) {
	before := newSnapshot(machine(nil), pci.PairOptions{})
	gone := newSnapshot(machine(func(nic, _ *pci.Device) { nic.Root = nil }), pci.PairOptions{})
	if got, want := lines(before.compare(gone)), "changed 0000:01:00.0 rails 0000:01:00.1 none\n"; !strings.Contains(got, want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := lines(gone.compare(before)); !strings.HasPrefix(got, "added 0000:01:00.1 - ? ?\n") {
		t.Errorf("got\n%s", got)
	}
}

// A device of the overrides that has gone leaves rails unknown, of nobody "none".
func TestOverridesOfADeviceThatGoes(t *testing.T) {
	o, err := pci.ParseOverrides(strings.NewReader("GPU0 = mlx5_0"))
	if err != nil {
		t.Fatal(err)
	}
	options := pci.PairOptions{Overrides: o}
	before := newSnapshot(machine(nil), options)
	gone := newSnapshot(machine(func(nic, _ *pci.Device) { nic.Root = nil }), options)
	records := before.compare(gone)
	if got, want := lines(records), "changed 0000:01:00.0 rails 0000:01:00.1 ?\n"; !strings.Contains(got, want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if r := records[0]; r.Event != Problem || !strings.Contains(or(r.Detail, ""), "overrides, line 1: no such device: mlx5_0") {
		t.Errorf("%s", lines(records))
	}
	if got := lines(gone.compare(gone)); got != "" {
		t.Errorf("told again: %s", got)
	}
	if got, want := lines(gone.compare(before)), "changed 0000:01:00.0 rails ? 0000:01:00.1\n"; !strings.Contains(got, want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestAWatchTellsWhatComesAndEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []Record
	read := func() (*pci.Topology, error) {
		switch {
		case len(got) < 2:
			return machine(func(nic, _ *pci.Device) { nic.Root = nil }), nil
		case len(got) >= 3 && len(got) < 6:
			return nil, errors.New("the last device is gone")
		}
		return machine(nil), nil
	}
	for r, err := range Watch(ctx, Options{Interval: time.Millisecond, Read: read}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Source != "compare" || r.Event == Changed {
			continue
		}
		if got = append(got, r); len(got) == 9 {
			cancel()
		}
	}
	want := "present 0000:00:01.0\npresent 0000:01:00.0\nadded 0000:01:00.1\n" +
		"removed 0000:00:01.0\nremoved 0000:01:00.0\nremoved 0000:01:00.1\n" +
		"added 0000:00:01.0\nadded 0000:01:00.0\nadded 0000:01:00.1\n"
	var text strings.Builder
	for _, r := range got {
		fmt.Fprintf(&text, "%s %s\n", r.Event, *r.Address)
	}
	if text.String() != want {
		t.Errorf("got\n%swant\n%s", &text, want)
	}
}

// The files of a device that is pulled go one after the other.
func TestHalfOfADeviceIsNotTold(t *testing.T) {
	half := func(nic, _ *pci.Device) { nic.Driver, nic.RDMA, nic.Node = "", nil, nil }
	gone := func(nic, _ *pci.Device) { nic.Root = nil }
	reads := []func(nic, gpu *pci.Device){nil, nil, half, gone}
	read := func() (*pci.Topology, error) {
		now := reads[0]
		if len(reads) > 1 {
			reads = reads[1:]
		}
		return machine(now), nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []Record
	for r, err := range Watch(ctx, Options{Interval: time.Millisecond, Read: read}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Source != "compare" || r.Event == Present {
			continue
		}
		if got = append(got, r); r.Event == Changed && *r.Field == "rails" {
			cancel()
		}
	}
	if text := lines(got); !strings.HasPrefix(text, "removed 0000:01:00.1") || strings.Count(text, "0000:01:00.1 ") != 2 {
		t.Errorf("got\n%s", text)
	}
}

// A machine that never rests is told of all the same.
func TestUnrestIsTold(t *testing.T) {
	reads := 0
	read := func() (*pci.Topology, error) {
		reads++
		return machine(func(_, gpu *pci.Device) { gpu.Link.Width = 1 + reads%16 }), nil
	}
	for r, err := range Watch(t.Context(), Options{Interval: time.Millisecond, Read: read}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Event == Changed && *r.Field == "link" {
			return
		}
	}
}

func TestAWatchWithoutADeviceSaysWhy(t *testing.T) {
	why := errors.New("no PCI")
	for r, err := range Watch(t.Context(), Options{Read: func() (*pci.Topology, error) { return nil, why }}) {
		if r.Event == Problem {
			continue
		}
		if !errors.Is(err, why) {
			t.Errorf("%v, %v", r, err)
		}
	}
}

func TestABurstIsToldWholeBeforeSysIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watcher{events: make(chan *Uevent, 8)}
		for range 3 {
			w.hear(t.Context(), &Uevent{Action: "add", Subsystem: "pci", Path: "/devices/pci0000:00/0000:00:01.0/0000:01:00.1"})
		}
		w.hear(t.Context(), &Uevent{Action: "add", Subsystem: "block"})
		w.hear(t.Context(), nil)
		var got []Record
		start := time.Now()
		w.settle(t.Context(), func(r Record, _ error) bool { got = append(got, r); return true })
		if took := time.Since(start); len(got) != 4 || took != quiet {
			t.Errorf("%d records in %v: %s", len(got), took, lines(got))
		}
		if or(got[0].Address, "") != "0000:01:00.1" || got[3].Event != Problem {
			t.Errorf("%s", lines(got))
		}
	})
}

func TestRecordsAreOneLine(t *testing.T) {
	r := record("compare", Changed)
	r.Address, r.Name, r.Field, r.To = new("0000:01:00.1"), new("mlx5_0"), new("net"), new("eth\n0\x1b[2J")
	var b bytes.Buffer
	if r.WriteText(&b); !strings.HasSuffix(b.String(), "  0000:01:00.1 mlx5_0     net unknown -> eth?0?[2J\n") {
		t.Errorf("%q", b.String())
	}
	b.Reset()
	if r.WriteJSON(&b); strings.Count(b.String(), "\n") != 1 || !strings.Contains(b.String(), `"from":null,"to":"eth\n0\u001b[2J"`) {
		t.Errorf("%s", &b)
	}
}
