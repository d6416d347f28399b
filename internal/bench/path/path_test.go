package path

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/pci"
)

// small takes each value once, in a moment.
func small(t *testing.T, change func(*Options)) Options {
	t.Helper()
	o := Options{GPUs: [2]int{0, 1}, Min: 1000, Max: 16000, Chunk: 4 << 10, Depth: 3, Rounds: 2, Both: true}
	if change != nil {
		change(&o)
	}
	if err := o.defaults(); err != nil {
		t.Fatal(err)
	}
	o.Duration = 1
	return o
}

func noBeat() {}

func TestRunChecksEveryWay(t *testing.T) {
	d := newFake()
	var told []Progress
	r, err := run(t.Context(), small(t, func(o *Options) { o.Tell = func(p Progress) { told = append(told, p) } }), d, noBeat)
	if err != nil {
		t.Fatal(err)
	}
	if d.live != 0 || len(d.mem) != 0 {
		t.Errorf("%d objects are left", d.live)
	}
	if r.Schema != Schema || len(r.Rows) != 3*3*6 || r.Conditions.Verified == 0 || r.Conditions.CUDA != "13.0" {
		t.Errorf("%d rows, %+v", len(r.Rows), r.Conditions)
	}
	if want := (Progress{2*len(r.Rows) - 1, 2 * len(r.Rows), ""}); told[len(told)-1].Done != want.Done || told[0].Total != want.Total || len(told) != want.Total {
		t.Errorf("told %d times, at last %+v, want %+v", len(told), told[len(told)-1], want)
	}
	if d.peer[0] == 0 || d.peer[1] == 0 || d.enabled != [2]bool{} {
		t.Errorf("%d peer copies without access, %d with it; enabled %v", d.peer[0], d.peer[1], d.enabled)
	}
	for _, row := range r.Rows {
		if v := row.Rate; !(v.Median > 0 && v.Least <= v.Median && v.Median <= v.Most) || row.Copies != 3 || (row.Alone == nil) != (row.Direction == Both) {
			t.Errorf("%+v", row)
		}
	}
}

func TestMismatch(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(to []byte, n int)
		want  MismatchError
		text  string
	}{
		"a byte": {func(to []byte, n int) { to[n-7] ^= 1 }, MismatchError{Size: 1000, Offset: 993}, "offset 993 (0x3e1) of copy 0 is"},
		"lost":   {func(to []byte, n int) { to[5] = poison }, MismatchError{Size: 1000, Offset: 5}, "it is what was there before"},
		"beyond": {func(to []byte, n int) { to[n] ^= 1 }, MismatchError{Size: 16000, Copy: -1, Offset: 0}, "behind the last"},
	} {
		d := newFake()
		d.spoil = c.spoil
		o := small(t, func(o *Options) {
			o.Ways = []Way{PeerWrite}
			if c.want.Copy < 0 {
				o.Min = o.Max // one after the other, copies would mend it
			}
		})
		_, err := run(t.Context(), o, d, noBeat)
		var m *MismatchError
		if !errors.As(err, &m) {
			t.Fatalf("%s: %v", name, err)
		}
		if m.Size != c.want.Size || m.Copy != c.want.Copy || m.Offset != c.want.Offset || m.Lane != "cuda:0 to cuda:1" || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %+v: %v", name, m, err)
		}
		if d.live != 0 {
			t.Errorf("%s: %d objects are left", name, d.live)
		}
	}
}

func TestWithoutAccess(t *testing.T) {
	d := newFake()
	d.access = [2]bool{}
	r, err := run(t.Context(), small(t, nil), d, noBeat)
	if err != nil || d.peer[1] != 0 || d.live != 0 {
		t.Fatalf("%v; %d peer copies with access", err, d.peer[1])
	}
	if ways := r.ways("cuda:0 to cuda:1"); !slices.Equal(ways, []Way{NoAccess, Piped, Plain, Pageable}) {
		t.Error(ways)
	}
	if r.Verdict[0].Code != "access" || !strings.Contains(r.Verdict[0].Text, "not possible") {
		t.Errorf("%+v", r.Verdict[0])
	}
	// Nothing that could be measured is left.
	d = newFake()
	d.access = [2]bool{}
	_, err = run(t.Context(), small(t, func(o *Options) { o.Ways = []Way{PeerRead} }), d, noBeat)
	if !errors.Is(err, errors.ErrUnsupported) || d.live != 0 {
		t.Error(err)
	}
}

// TestAccessOfOne: where one GPU reaches the other, it makes the copies of both
// directions.
func TestAccessOfOne(t *testing.T) {
	d := newFake()
	d.access = [2]bool{true, false}
	r, err := run(t.Context(), small(t, func(o *Options) { o.Ways = []Way{PeerWrite, PeerRead} }), d, noBeat)
	if err != nil {
		t.Fatal(err)
	}
	there, back := r.ways("cuda:0 to cuda:1"), r.ways("cuda:1 to cuda:0")
	if !slices.Equal(there, []Way{PeerWrite}) || !slices.Equal(back, []Way{PeerRead}) || len(r.ways(Both)) != 0 {
		t.Errorf("%v, %v, %v", there, back, r.ways(Both))
	}
}

// twoNodes is a machine with two of them, and the fake's GPUs one on each.
func twoNodes() *pci.Topology {
	t := &pci.Topology{}
	for i := range 2 {
		n := &pci.Node{Number: i, Present: true, CPUs: pci.CPUs{i}, Memory: 1 << 30}
		root := &pci.Root{Name: []string{"pci0000:01", "pci0000:02"}[i], Bus: uint8(i + 1), Node: n}
		t.Nodes, t.Roots = append(t.Nodes, n), append(t.Roots, root)
		t.Devices = append(t.Devices, &pci.Device{Address: pci.Address{Bus: uint8(i + 1)}, Root: root, Class: 0x030200, Vendor: 0x10de, Node: n,
			Link: pci.Link{Speed: 2.5, MaxSpeed: 32, Width: 16, MaxWidth: 16}})
	}
	pci.Assemble(t)
	return t
}

func TestNodesAreCompared(t *testing.T) {
	d := newFake()
	r, err := run(t.Context(), small(t, func(o *Options) { o.Topology, o.Ways = twoNodes(), []Way{Piped} }), d, noBeat)
	if err != nil || d.live != 0 {
		t.Fatal(err)
	}
	if !slices.Equal(r.compared(), []int{0, 1}) || len(r.Rows) != 3*3+2*2*3 || r.onNode(1, "cuda:1 to cuda:0", 4000) == nil {
		t.Errorf("%v, %d rows", r.compared(), len(r.Rows))
	}
	if p := r.PCI; p == nil || p.Class != "SYS" || !p.Nodes || *r.GPUs[1].Node != 1 || r.GPUs[0].Link < 60 {
		t.Errorf("%+v, %+v", r.PCI, r.GPUs)
	}
	// A container forbids it: the rest is measured, and the report says so.
	d = newFake()
	d.nowhere = true
	r, err = run(t.Context(), small(t, func(o *Options) { o.Topology, o.Ways = twoNodes(), []Way{Piped} }), d, noBeat)
	if err != nil || r.Conditions.Unbound == "" || len(r.compared()) != 0 || !strings.Contains(r.placementVerdict(), "CAP_SYS_NICE") {
		t.Errorf("%v: %+v", err, r)
	}
}

func TestMissingGPU(t *testing.T) {
	for gpus, text := range map[int]string{1: "shows one GPU, cuda:0", 0: "shows 0 GPUs", 4: "shows 4 GPUs, numbered from 0"} {
		d := newFake()
		d.gpus = gpus
		_, err := run(t.Context(), small(t, func(o *Options) { o.GPUs = [2]int{0, max(1, gpus)} }), d, noBeat)
		if !errors.Is(err, syscall.ENODEV) || !strings.Contains(err.Error(), text) || d.live != 0 {
			t.Errorf("%d: %v", gpus, err)
		}
	}
}

func TestWhatMakesNoSense(t *testing.T) {
	pair := [2]int{0, 1}
	for name, o := range map[string]Options{
		"itself":  {GPUs: [2]int{2, 2}},
		"below 0": {GPUs: [2]int{0, -1}},
		"min":     {GPUs: pair, Min: 2, Max: 1},
		"max":     {GPUs: pair, Max: 1 << 40},
		"chunk":   {GPUs: pair, Chunk: 100},
		"buffers": {GPUs: pair, Buffers: 65},
		"depth":   {GPUs: pair, Depth: -1},
		"rounds":  {GPUs: pair, Rounds: -1},
		"time":    {GPUs: pair, Duration: time.Hour},
		"way":     {GPUs: pair, Ways: []Way{"by foot"}},
		"twice":   {GPUs: pair, Ways: []Way{Piped, Piped}},
	} {
		if o.Check() == nil {
			t.Errorf("%s makes sense", name)
		}
	}
	if err := (Options{GPUs: pair}).Check(); err != nil {
		t.Error(err)
	}
}

func TestSizes(t *testing.T) {
	o := Options{GPUs: [2]int{0, 1}}
	if err := o.defaults(); err != nil {
		t.Fatal(err)
	}
	if s := o.sizes(); len(s) != 9 || s[0] != 4<<10 || s[8] != 256<<20 {
		t.Error(s)
	}
	o.Min, o.Max = 1000, 5000
	if s := o.sizes(); !slices.Equal(s, []uint64{1000, 4000, 5000}) {
		t.Error(s)
	}
	o.Max = 4 << 30
	for size, want := range map[uint64]int{4 << 10: 16, 16 << 20: 16, 64 << 20: 4, 256 << 20: 2, 4 << 30: 2} {
		if n := o.depth(size); n != want {
			t.Errorf("%d copies of %d, want %d", n, size, want)
		}
	}
}

// TestOrder: every round has everything once, what is without access first, and
// begins a size with another way.
func TestOrder(t *testing.T) {
	r := &rig{o: small(t, nil), can: [2]bool{true, true}}
	all := r.keys()
	firsts := map[Way]bool{}
	for round := range 6 {
		keys := order(all, round)
		for _, k := range all {
			if n := slices.Index(keys, k); n < 0 || (k.way == NoAccess) != (n < 9) {
				t.Fatalf("round %d: %+v at %d", round, k, n)
			}
		}
		firsts[keys[9].way] = true
	}
	if len(firsts) != 5 {
		t.Errorf("rounds begin with %v", firsts)
	}
}

// TestTurning: why traffic turns where it does, without the kernel's permissions.
func TestTurning(t *testing.T) {
	d := &pci.Device{Address: pci.Address{Bus: 3}}
	for want, p := range map[string]pci.P2P{
		"no bridge is above both":                            {Through: pci.WayHostBridge, Reason: "the kernel"},
		"access control redirects to the root at 0000:03:00": {Through: pci.WayHostBridge, Bridge: d, Redirects: []*pci.Device{d}},
		"bridge 0000:03:00.0 is above both":                  {Through: pci.WayBridge, Bridge: d},
		"could not be read":                                  {Through: pci.WayUnknown, Bridge: d, Reason: "it could not be read"},
	} {
		if got := turning(p); !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}
