//go:build lab

package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/peerdirect/peerdirect/internal/sysroot"
	"github.com/peerdirect/peerdirect/pci"
)

const sysfs = "/sys/bus/pci/"

// deadline is how long a change may take to be told, on a host that has other work
// than to emulate this machine.
const deadline = time.Minute

// guest reads the guest, which has accelerators and EFA devices behind switches.
func guest(t *testing.T) func() (*pci.Topology, error) {
	t.Helper()
	if os.Getenv("PEERDIRECT_ACCELERATORS") == "" || os.Getenv("PEERDIRECT_EFA") == "" {
		t.Skip("needs a lab guest with accelerators and EFA devices: lab run --efa 32 --accelerator 8 --memory 1536")
	}
	root, err := sysroot.Dir("/")
	if err != nil {
		t.Fatal(err)
	}
	return func() (*pci.Topology, error) { return pci.Read(root) }
}

// watched is a running watch, and what it has told.
type watched struct {
	records chan Record
	seen    []Record
}

// start watches the guest. It looks only when the kernel says something: what is
// told was told by an event.
func start(t *testing.T, read func() (*pci.Topology, error), interval time.Duration) *watched {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watched{records: make(chan Record, 10_000)}
	go func() {
		defer close(w.records)
		for r, err := range Watch(ctx, Options{Interval: interval, Read: read}) {
			if err != nil {
				t.Error(err)
			}
			w.records <- r
		}
	}()
	t.Cleanup(func() {
		cancel()
		for range w.records {
		}
	})
	topo, err := read()
	if err != nil {
		t.Fatal(err)
	}
	for range topo.Devices {
		w.next(t, "what there is", time.After(deadline))
	}
	for i, r := range w.seen {
		d := topo.Devices[i]
		if r.Event != Present || *r.Address != d.Address.String() || *r.Name != topo.Name(d) || *r.Kind != d.Kind.String() {
			t.Fatalf("at the start: %+v, want %s", r, d.Address)
		}
	}
	return w
}

func (w *watched) next(t *testing.T, what string, timeout <-chan time.Time) Record {
	t.Helper()
	select {
	case r, ok := <-w.records:
		if !ok {
			t.Fatalf("%s: the watch has ended", what)
		}
		w.seen = append(w.seen, r)
		return r
	case <-timeout:
		var b strings.Builder
		for _, r := range w.seen[max(0, len(w.seen)-50):] {
			r.WriteText(&b)
		}
		t.Fatalf("%s: not told in %s; the last:\n%s", what, deadline, &b)
	}
	panic("unreachable")
}

// expect waits for all of some records, in any order, among others. "|" is between
// two of which one will do.
func (w *watched) expect(t *testing.T, what string, wanted ...string) {
	t.Helper()
	from, timeout := time.Now(), time.After(deadline)
	for len(wanted) > 0 {
		got := brief(w.next(t, what+": "+strings.Join(wanted, "; "), timeout))
		wanted = slices.DeleteFunc(wanted, func(s string) bool { return slices.Contains(strings.Split(s, "|"), got) })
	}
	t.Logf("%s: told within %d ms", what, time.Since(from).Milliseconds())
}

// brief is a record in a line, without its time.
func brief(r Record) string {
	switch r.Event {
	case Changed:
		return fmt.Sprintf("%s: %s %s -> %s", *r.Address, *r.Field, or(r.From, "?"), or(r.To, "?"))
	case Notified, Problem:
		words := strings.Fields(or(r.Detail, ""))
		return fmt.Sprintf("%s: %s %s", or(r.Address, "-"), r.Source, strings.Join(words[:min(2, len(words))], " "))
	}
	return fmt.Sprintf("%s: %s %s", *r.Address, r.Event, *r.Name)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0); err != nil {
		t.Fatal(err)
	}
}

// remove pulls a function. The port above finds it again, at the latest when the
// test ends.
func remove(t *testing.T, d *pci.Device) {
	t.Helper()
	write(t, sysfs+"devices/"+d.Address.String()+"/remove", "1")
	t.Cleanup(func() { rescan(t, d) })
}

func rescan(t *testing.T, d *pci.Device) {
	t.Helper()
	write(t, sysfs+"devices/"+d.Parent.Address.String()+"/rescan", "1")
}

// settled is what /sys says: the functions, the drivers and who has which rails.
func settled(t *testing.T, read func() (*pci.Topology, error)) (all []string) {
	t.Helper()
	topo, err := read()
	if err != nil {
		t.Fatal(err)
	}
	s := newSnapshot(topo, pci.PairOptions{})
	for _, a := range s.order {
		line := a.String() + " " + s.devices[a].name
		for _, f := range s.devices[a].fields {
			line += ", " + f.name + " " + or(f.value, "?")
		}
		all = append(all, line)
	}
	return all
}

// near gives the first accelerator of the second NUMA node and its first rail.
func near(t *testing.T, read func() (*pci.Topology, error)) (topo *pci.Topology, pair pci.Pair) {
	t.Helper()
	topo, err := read()
	if err != nil {
		t.Fatal(err)
	}
	pairing, err := topo.Pair(pci.PairOptions{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(pairing.Pairs, func(p pci.Pair) bool { return p.Accelerator.Node.Number == 1 })
	if i < 0 || len(pairing.Pairs[i].Rails) < 2 {
		t.Skip("needs a lab guest with several NICs to an accelerator: lab run --efa 32 --accelerator 8 --memory 1536")
	}
	return topo, pairing.Pairs[i]
}

func names(devices []*pci.Device) string {
	var all []string
	for _, d := range devices {
		all = append(all, d.Address.String())
	}
	return strings.Join(all, " ")
}

// A NIC is pulled and put back: the records say so, and /sys is as they say.
func TestTopologyWatchSeesANICComeAndGo(t *testing.T) {
	read := guest(t)
	topo, pair := near(t, read)
	nic := pair.Rails[0]
	at, name := nic.Address.String(), topo.Name(nic)
	before := settled(t, read)
	w := start(t, read, time.Hour)

	remove(t, nic)
	w.expect(t, "removal", at+": netlink unbind pci", at+": netlink remove pci", at+": netlink remove infiniband",
		at+": removed "+name, pair.Accelerator.Address.String()+": rails "+names(pair.Rails)+" -> "+names(pair.Rails[1:]))
	if _, err := os.Stat(sysfs + "devices/" + at); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("told as removed, but: %v", err)
	}

	rescan(t, nic)
	w.expect(t, "rescan", at+": netlink add pci", at+": netlink bind pci", at+": netlink add infiniband",
		// The driver may be done after the function was told.
		at+": added "+name+"|"+at+": rdma none -> "+name+" 1:ACTIVE", pair.Accelerator.Address.String()+": rails "+names(pair.Rails[1:])+" -> "+names(pair.Rails))
	if diff := cmp.Diff(before, settled(t, read)); diff != "" {
		t.Errorf("-before +after\n%s", diff)
	}
	w.agrees(t, read)
}

// So an accelerator, and the names of those after it.
func TestTopologyWatchSeesAnAcceleratorComeAndGo(t *testing.T) {
	read := guest(t)
	topo, pair := near(t, read)
	at, name := pair.Accelerator.Address.String(), topo.Name(pair.Accelerator)
	before := settled(t, read)
	w := start(t, read, time.Hour)

	remove(t, pair.Accelerator)
	w.expect(t, "removal", at+": netlink unbind pci", at+": netlink remove pci", at+": removed "+name)
	if _, err := os.Stat(sysfs + "devices/" + at); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("told as removed, but: %v", err)
	}
	rescan(t, pair.Accelerator)
	w.expect(t, "rescan", at+": netlink add pci", at+": netlink bind pci",
		// It is known by its driver.
		at+": added "+name+"|"+at+": kind other -> accelerator")
	if diff := cmp.Diff(before, settled(t, read)); diff != "" {
		t.Errorf("-before +after\n%s", diff)
	}
	w.agrees(t, read)
}

// A NIC loses its driver, and with it its RDMA device and its name.
func TestTopologyWatchSeesADriverComeAndGo(t *testing.T) {
	read := guest(t)
	topo, pair := near(t, read)
	nic := pair.Rails[1]
	at, name, active := nic.Address.String(), topo.Name(nic), topo.Name(nic)+" 1:ACTIVE"
	before := settled(t, read)
	w := start(t, read, time.Hour)

	write(t, sysfs+"drivers/efa/unbind", at)
	t.Cleanup(func() { os.WriteFile(sysfs+"drivers_probe", []byte(at), 0) })
	w.expect(t, "unbind", at+": netlink unbind pci", at+": driver efa -> none", at+": rdma "+active+" -> none")
	if _, err := os.Stat(sysfs + "devices/" + at + "/driver"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("told as without a driver, but: %v", err)
	}
	write(t, sysfs+"drivers/efa/bind", at)
	w.expect(t, "bind", at+": netlink bind pci", at+": driver none -> efa", at+": rdma none -> "+active)
	if link, err := os.Readlink(sysfs + "devices/" + at + "/infiniband/" + name + "/device"); err != nil || filepath.Base(link) != at {
		t.Errorf("%s: %s, %v", name, link, err)
	}
	if diff := cmp.Diff(before, settled(t, read)); diff != "" {
		t.Errorf("-before +after\n%s", diff)
	}
}

// agrees applies what was told to what was there at the start: it has to come to
// what /sys says now.
func (w *watched) agrees(t *testing.T, read func() (*pci.Topology, error)) {
	t.Helper()
	told := map[string]bool{}
	for _, r := range w.seen {
		switch r.Event {
		case Present, Added:
			told[*r.Address] = true
		case Removed:
			delete(told, *r.Address)
		case Problem:
			t.Errorf("the watch had a problem: %s", *r.Detail)
		}
	}
	entries, err := os.ReadDir(sysfs + "devices")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !told[e.Name()] {
			t.Errorf("/sys has %s, and nobody told", e.Name())
		}
		delete(told, e.Name())
	}
	for a := range told {
		t.Errorf("%s was told, but /sys has it not", a)
	}
}
