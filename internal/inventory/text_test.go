package inventory

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/peerdirect/peerdirect/internal/golden"
)

// machine is a made-up inventory: an adapter of which everything is known, and
// a software device that could not be opened.
func machine(t *testing.T) Inventory {
	t.Helper()
	b, err := os.ReadFile("testdata/machine.json")
	if err != nil {
		t.Fatal(err)
	}
	var inv Inventory
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&inv); err != nil {
		t.Fatal(err)
	}
	return inv
}

func printed(t *testing.T, print func(*bytes.Buffer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := print(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTableFitsTheTerminal(t *testing.T) {
	inv := machine(t)
	for name, width := range map[string]int{"table-pipe.txt": 0, "table-120.txt": 120, "table-80.txt": 80, "table-60.txt": 60} {
		got := printed(t, func(b *bytes.Buffer) error { return inv.WriteTable(b, width) })
		golden.Check(t, name, []byte(got))
		for line := range strings.Lines(got) {
			if n := len(strings.TrimSuffix(line, "\n")); width > 0 && n > width {
				t.Errorf("%s: a line of %d characters: %q", name, n, line)
			}
		}
	}
}

func TestTableNeverDropsTheDeviceAndItsState(t *testing.T) {
	inv := machine(t)
	got := printed(t, func(b *bytes.Buffer) error { return inv.WriteTable(b, 5) })
	for _, want := range []string{"DEVICE", "STATE", "mlx5_bond_0", "DOWN", "NETDEV"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

func TestVerboseText(t *testing.T) {
	inv := machine(t)
	golden.Check(t, "verbose.txt", []byte(printed(t, func(b *bytes.Buffer) error { return inv.WriteVerbose(b, 0) })))
	narrow := printed(t, func(b *bytes.Buffer) error { return inv.WriteVerbose(b, 60) })
	if strings.Contains(narrow, "BAD_PKEY_CNTR BAD_QKEY_CNTR AUTO_PATH_MIG") {
		t.Error("capabilities are not wrapped at 60 columns")
	}
}

// The file is written by the printer, so that it is the golden of the JSON too.
func TestJSONKeepsEveryField(t *testing.T) {
	inv := machine(t)
	golden.Check(t, "machine.json", []byte(printed(t, func(b *bytes.Buffer) error { return inv.WriteJSON(b) })))
}

func TestEveryJSONFieldIsPresentWithoutAValue(t *testing.T) {
	b, err := json.Marshal(Inventory{Devices: []Device{{Ports: []Port{{}}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"numa_node":null`, `"dmabuf_import":null`, `"pci":null`, `"limits":null`, `"rate_mbps":null`, `"resources":null`, `"gids":null`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s is not in %s", want, b)
		}
	}
}

func TestNaturalOrder(t *testing.T) {
	for _, c := range [][2]string{{"mlx5_2", "mlx5_10"}, {"mlx5_9", "mlx5_09a"}, {"efa_0", "rxe0"}, {"a", "a1"}, {"rdmap9s0", "rdmap79s0"}} {
		if natural(c[0], c[1]) >= 0 || natural(c[1], c[0]) <= 0 {
			t.Errorf("%s does not come before %s", c[0], c[1])
		}
	}
	if natural("mlx5_3", "mlx5_3") != 0 {
		t.Error("a name differs from itself")
	}
}

func TestByteCount(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 bytes", 4096: "4096 bytes", 1 << 20: "1048576 bytes (1 MiB)", 3 << 30: "3221225472 bytes (3 GiB)",
		1<<32 - 1: "4294967295 bytes", 1<<64 - 1: "unlimited (2^64-1 bytes)",
	} {
		if got := byteCount(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestCompareTellsChanges(t *testing.T) {
	port := func(n int, state, netdev string, gids ...GID) Port {
		p := Port{Number: n, State: &state, GIDs: gids}
		if netdev != "" {
			p.Netdev = &netdev
		}
		return p
	}
	v2 := GID{Index: 1, GID: "::1", Address: "::1", Type: new("RoCE v2")}
	before := map[string]Device{
		"rxe0": {Name: "rxe0", Index: new(uint32(0)), Ports: []Port{port(1, "ACTIVE", "eth0", v2)}},
		"rxe1": {Name: "rxe1", Index: new(uint32(1)), Ports: []Port{port(1, "ACTIVE", "eth1")}},
		"siw0": {Name: "siw0", Index: new(uint32(2)), Ports: []Port{port(1, "DOWN", "eth2")}},
	}
	now := map[string]Device{
		"rxe0": {Name: "rxe0", Index: new(uint32(0)), Ports: []Port{port(1, "DOWN", "")}},
		"siw0": {Name: "siw0", Index: new(uint32(7)), Ports: []Port{port(1, "ACTIVE", "eth2")}}, // made anew
	}
	lines := func(o Options) string {
		w := &watcher{options: o}
		var b strings.Builder
		for _, r := range w.compare(before, now) {
			var line strings.Builder
			if err := r.WriteText(&line); err != nil {
				t.Fatal(err)
			}
			_, rest, _ := strings.Cut(line.String(), "  ")
			b.WriteString(rest)
		}
		return b.String()
	}
	want := `rxe1        removed
siw0        removed
rxe0/1      state ACTIVE -> DOWN
rxe0/1      netdev eth0 -> none
rxe0/1      gids[1] ::1 RoCE v2 -> none
siw0        added
siw0/1      is ACTIVE
`
	if diff := cmp.Diff(want, lines(Options{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff("rxe1        removed\n", lines(Options{Device: "rxe1"})); diff != "" {
		t.Errorf("of one device, -want +got:\n%s", diff)
	}
	if got := lines(Options{Device: "rxe0", Port: 2}); got != "" {
		t.Errorf("of another port: %s", got)
	}
}

func TestRecordsAreOneLineEach(t *testing.T) {
	w := &watcher{}
	r := w.record("async", EventNotified, "rxe0", 1)
	r.Detail = new("port error")
	got := printed(t, func(b *bytes.Buffer) error { return r.WriteJSON(b) })
	if strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, "\n") {
		t.Errorf("%q is not one line", got)
	}
	for _, want := range []string{`"schema":"peerdirect.devices.watch/1"`, `"event":"notified"`, `"device":"rxe0"`, `"port":1`, `"field":null`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
}
