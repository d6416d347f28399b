//go:build lab

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/peerdirect/peerdirect/pci/watch"
)

// topoShown is what the tests want of peerdirect topo --json.
type topoShown struct {
	Devices []struct {
		Address, Name, Kind    string
		Parent                 *string
		Vendor, Product, Class *string
		Node                   *int `json:"numa_node"`
		RDMA                   []struct{ Name string }
		Net                    []string
	}
	Pairs []struct {
		Accelerator string
		Rails       []string
		Class       string
	}
	Distances []struct{ From, To, Class string }
	Problems  []string
}

// topoOfGuest is the guest's document, read once: each test leaves the guest as it
// found it.
var topoOfGuest string

// topoJSON gives the guest's document, or with arguments another.
func topoJSON(t *testing.T, args ...string) (shown topoShown, all map[string]any) {
	t.Helper()
	text := topoOfGuest
	if text == "" || len(args) > 0 {
		text = output(t, "peerdirect", append([]string{"topo", "--json"}, args...)...)
	}
	if len(args) == 0 {
		topoOfGuest = text
	}
	for _, v := range []any{&shown, &all} {
		if err := json.Unmarshal([]byte(text), v); err != nil {
			t.Fatal(err)
		}
	}
	if len(shown.Problems) > 0 {
		t.Errorf("topo %v could not read: %q", args, shown.Problems)
	}
	return shown, all
}

// labSwitches skips where the guest has no accelerators with NICs beside them.
func labSwitches(t *testing.T) {
	t.Helper()
	if os.Getenv("PEERDIRECT_ACCELERATORS") == "" || os.Getenv("PEERDIRECT_EFA") == "" {
		t.Skip("needs a lab guest with accelerators and EFA devices: lab run --efa 32 --accelerator 8 --memory 1536")
	}
}

// names gives each device's by its address.
func (s *topoShown) names() map[string]string {
	names := map[string]string{}
	for _, d := range s.Devices {
		names[d.Address] = d.Name
	}
	return names
}

// pairs gives them by name, a line each.
func (s *topoShown) pairs() (all []string) {
	names := s.names()
	for _, p := range s.Pairs {
		line := names[p.Accelerator] + " " + p.Class
		for _, r := range p.Rails {
			line += " " + names[r]
		}
		all = append(all, line)
	}
	return all
}

// Another engineer's command shows of a capture what this one shows of the guest.
func TestTopologyCommandReadsItsCapture(t *testing.T) {
	labSwitches(t)
	file := filepath.Join(t.TempDir(), "guest.tgz")
	said := output(t, "peerdirect", "topo", "capture", file)
	_, guest := topoJSON(t)
	_, captured := topoJSON(t, "--sysroot", file)
	for _, document := range []map[string]any{guest, captured} {
		delete(document, "source")
		for _, d := range document["devices"].([]any) {
			for _, r := range d.(map[string]any)["rdma"].([]any) {
				delete(r.(map[string]any), "node_guid") // replaced
			}
		}
	}
	if diff := cmp.Diff(guest, captured); diff != "" {
		t.Errorf("-guest +capture\n%s", diff)
	}
	t.Logf("%sequal", said)
}

// The pairs, which an outline is enough for, and the matrix say what the document
// says.
func TestTopologyCommandViewsAgree(t *testing.T) {
	labSwitches(t)
	shown, _ := topoJSON(t)
	names := shown.names()
	if n := len(strings.Split(os.Getenv("PEERDIRECT_ACCELERATORS"), ",")); len(shown.Pairs) != n {
		t.Fatalf("%d pairs of %d accelerators", len(shown.Pairs), n)
	}
	pairs := output(t, "peerdirect", "topo", "--pairs")
	tree := output(t, "peerdirect", "topo")
	for i, p := range shown.Pairs {
		name, next := names[p.Accelerator], len(pairs)
		from := strings.Index(pairs, name)
		if i+1 < len(shown.Pairs) {
			next = strings.Index(pairs, names[shown.Pairs[i+1].Accelerator])
		}
		if from < 0 || next < from {
			t.Fatalf("no %s in its place:\n%s", name, pairs)
		}
		for _, r := range p.Rails {
			if part := pairs[from:next]; !slices.Contains(strings.FieldsFunc(part, notName), names[r]) {
				t.Errorf("%s is no rail of %s in\n%s", names[r], name, part)
			}
			if !strings.Contains(tree, names[r]) {
				t.Errorf("the tree lacks %s", names[r])
			}
		}
	}
	var header []string
	cells := map[string]string{}
	for line := range strings.Lines(output(t, "peerdirect", "topo", "--matrix")) {
		columns := strings.Fields(line)
		switch {
		case header == nil:
			header = columns // above the second column of a row and on
		case len(columns) > len(header)/2 && strings.HasPrefix(columns[0], "GPU"):
			for i, class := range columns[1:] {
				cells[columns[0]+" "+header[i]] = class
			}
		}
	}
	compared := 0
	for _, d := range shown.Distances {
		row, column := names[d.From], names[d.To]
		if strings.HasPrefix(column, "efa_") { // NICs have numbers there, and a legend
			column = "NIC" + strings.TrimPrefix(column, "efa_")
		}
		if got := cells[row+" "+column]; got != d.Class {
			t.Fatalf("the matrix has %q for %s and %s, the document %s: %v", got, row, column, d.Class, header)
		}
		compared++
	}
	t.Logf("%d pairs, %d cells of the matrix: equal", len(shown.Pairs), compared)
}

func notName(r rune) bool { return !(r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z') }

// What lstopo writes of the guest is the same machine, but that it has no drivers
// in it; and so is what --nccl-xml writes, but that it has only what NCCL wants.
func TestTopologyCommandReadsOtherFormats(t *testing.T) {
	labSwitches(t)
	shown, _ := topoJSON(t)
	folder := t.TempDir()
	hwloc, nccl := filepath.Join(folder, "hwloc.xml"), filepath.Join(folder, "nccl.xml")
	output(t, "lstopo", "--of", "xml", "--filter", "io:all", hwloc)
	theirs, _ := topoJSON(t, "--from", hwloc)
	if len(theirs.Devices) != len(shown.Devices) {
		t.Fatalf("%d devices in lstopo's file, %d here", len(theirs.Devices), len(shown.Devices))
	}
	for i, d := range shown.Devices {
		their := theirs.Devices[i]
		d.Name, d.Kind, their.Name, their.Kind = "", "", "", "" // the lab's accelerator is known by its driver
		*d.Class = (*d.Class)[:len("0x0106")] + "00"            // lstopo writes no interface
		if diff := cmp.Diff(their, d); diff != "" {
			t.Errorf("%s: -lstopo's file +/sys\n%s", d.Address, diff)
		}
	}
	output(t, "peerdirect", "topo", "--nccl-xml", nccl)
	read, _ := topoJSON(t, "--from", nccl)
	if diff := cmp.Diff(shown.pairs(), read.pairs()); diff != "" {
		t.Errorf("-/sys +NCCL's file\n%s", diff)
	}
	t.Logf("%d devices, %d pairs: equal", len(theirs.Devices), len(read.Pairs))
}

// The command's watch tells of a NIC that is pulled, and ends without an error.
func TestTopologyCommandWatches(t *testing.T) {
	labSwitches(t)
	shown, _ := topoJSON(t)
	pair := shown.Pairs[len(shown.Pairs)-1]
	nic := pair.Rails[len(pair.Rails)-1]
	parent := ""
	for _, d := range shown.Devices {
		if d.Address == nic {
			parent = *d.Parent
		}
	}
	cmd := exec.Command("peerdirect", "topo", "--watch", "--json", "--interval", "1h")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slow := time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() })
	defer slow.Stop()
	rescan := func() { os.WriteFile("/sys/bus/pci/devices/"+parent+"/rescan", []byte("1"), 0) }
	t.Cleanup(rescan)
	write := func(path string) {
		if err := os.WriteFile(path, []byte("1"), 0); err != nil {
			t.Error(err)
		}
	}
	present := 0
	var seen []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var r watch.Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil || r.Schema != watch.Schema {
			t.Fatalf("%v in %s", err, lines.Text())
		}
		if r.Event == watch.Present {
			if present++; present == len(shown.Devices) {
				write("/sys/bus/pci/devices/" + nic + "/remove")
			}
			continue
		}
		if r.Address == nil || *r.Address != nic {
			continue
		}
		step := fmt.Sprint(r.Source, " ", r.Event)
		if slices.Contains(seen, step) {
			continue
		}
		seen = append(seen, step)
		switch r.Event {
		case watch.Removed:
			write("/sys/bus/pci/devices/" + parent + "/rescan")
		case watch.Added:
			cmd.Process.Signal(os.Interrupt)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the watch ended with %v", err)
	}
	if want := []string{"netlink notified", "compare removed", "compare added"}; !slices.Equal(seen, want) {
		t.Errorf("of %s were told %q, want %q", nic, seen, want)
	}
}
