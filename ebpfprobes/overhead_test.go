package ebpfprobes

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cilium/ebpf"
)

// spent makes costs of probes: phases, others and needed ones, of so many ms each.
func spent(over time.Duration, cpus int, ms map[string]int) Overhead {
	o := Overhead{Over: over, CPUs: cpus}
	for _, p := range []Probe{
		{Role: "pinning", Function: "pin", phase: true}, {Role: "mapping", Function: "map", phase: true},
		{Role: "live regions", Function: "add"}, {Role: "registering", Function: "reg", Needed: true},
	} {
		if n, ok := ms[p.Function]; ok {
			o.Probes = append(o.Probes, ProbeCost{Probe: p, Hits: uint64(n), Ran: time.Duration(n) * time.Millisecond})
		}
	}
	return o
}

func TestOverBudget(t *testing.T) {
	for name, c := range map[string]struct {
		ms     map[string]int // of 1 s of 2 CPUs: 20 ms are 1 %
		budget float64
		drop   string
		within bool
	}{
		"within":                          {map[string]int{"pin": 5, "map": 5, "add": 5, "reg": 5}, 0.01, "[]", true},
		"the dearest phase is enough":     {map[string]int{"pin": 9, "map": 30, "add": 5, "reg": 5}, 0.01, "[map]", true},
		"two phases":                      {map[string]int{"pin": 15, "map": 30, "add": 5, "reg": 5}, 0.01, "[map pin]", true},
		"phases go before dearer others":  {map[string]int{"pin": 6, "map": 6, "add": 14, "reg": 3}, 0.01, "[map pin]", true},
		"all that can go, and enough":     {map[string]int{"pin": 6, "map": 6, "add": 14, "reg": 19}, 0.01, "[map pin add]", true},
		"needed ones alone are too dear":  {map[string]int{"pin": 1, "reg": 50}, 0.01, "[pin]", false},
		"nothing ran":                     {map[string]int{"pin": 0, "reg": 0}, 0.01, "[]", true},
		"what did not run stays attached": {map[string]int{"pin": 0, "add": 25, "reg": 5}, 0.01, "[add]", true},
	} {
		drop, within := spent(time.Second, 2, c.ms).OverBudget(c.budget)
		var names []string
		for _, d := range drop {
			names = append(names, d.Probe.Function)
		}
		if fmt.Sprint(names) != c.drop || within != c.within {
			t.Errorf("%s: drops %v, within %v; want %s, %v", name, names, within, c.drop, c.within)
		}
	}
}

func TestShare(t *testing.T) {
	if got := spent(2*time.Second, 4, map[string]int{"pin": 60, "reg": 20}).Share(); got != 0.01 {
		t.Errorf("%v of 80 ms in 2 s of 4 CPUs", got)
	}
	if got := (Overhead{}).Share(); got != 0 {
		t.Errorf("%v of nothing", got)
	}
}

func TestCosts(t *testing.T) {
	pin := Probe{Role: "pinning", Function: "pin", By: ByKprobe}
	reg := Probe{Role: "registering", Function: "reg", By: ByFentry}
	// Only addresses matter: the programs are told apart by them.
	entry, exit, other, late := new(ebpf.Program), new(ebpf.Program), new(ebpf.Program), new(ebpf.Program)
	before := map[*ebpf.Program]programRuns{
		entry: {pin, false, 100, 1000}, exit: {pin, true, 90, 900}, other: {reg, false, 5, 50},
	}
	after := map[*ebpf.Program]programRuns{
		entry: {pin, false, 110, 1500}, exit: {pin, true, 100, 1600}, other: {reg, false, 5, 50}, late: {reg, true, 7, 70},
	}
	got := costs(before, after)
	if len(got) != 2 || got[0].Probe != pin || got[0].Hits != 20 || got[0].Ran != 1200 ||
		got[0].Way != 10*(costKprobe+costStatistics)+10*(costKretprobe+costStatistics) {
		t.Errorf("%+v", got)
	}
	if len(got) == 2 && (got[1].Probe != reg || got[1].Hits != 0 || got[1].Total() != 0) {
		t.Errorf("%+v", got[1])
	}
}

func TestOnlineCPUs(t *testing.T) {
	for list, want := range map[string]int{"0\n": 1, "0-7\n": 8, "0-3,8,10-11\n": 7} {
		root := fstest.MapFS{"sys/devices/system/cpu/online": {Data: []byte(list)}}
		if got := onlineCPUs(root); got != want {
			t.Errorf("%q: %d CPUs, want %d", list, got, want)
		}
	}
	for _, list := range []string{"", "a", "3-1", "1-"} {
		if n, err := countList(list); err == nil {
			t.Errorf("%q: %d CPUs", list, n)
		}
	}
	if onlineCPUs(fstest.MapFS{}) < 1 {
		t.Error("no CPU")
	}
}

// Lacking tells a missing privilege from what a kernel has not.
func TestLacking(t *testing.T) {
	yes := Probe{Purpose: "a", Role: "r", Function: "f", Usable: Yes, Needed: true}
	no := Probe{Purpose: "a", Role: "r", Function: "g", Usable: No, Why: "it is gone", Needed: true}
	other := Probe{Purpose: "b", Role: "r", Function: "g", Usable: No, Why: "not there", Needed: true}
	denied := Probe{Purpose: "a", Role: "s", Function: "h", Usable: No, Why: "denied", Err: fmt.Errorf("load: %w", syscall.EPERM), Needed: true}
	spare := Probe{Purpose: "a", Role: "t", Usable: Unknown}
	for name, c := range map[string]struct {
		probes []Probe
		is     error
	}{
		"one of two":         {[]Probe{no, yes}, nil},
		"none":               {[]Probe{no}, errors.ErrUnsupported},
		"of another purpose": {[]Probe{yes, other}, errors.ErrUnsupported},
		"not allowed":        {[]Probe{yes, denied}, fs.ErrPermission},
		"can be spared":      {[]Probe{yes, spare}, nil},
	} {
		err := Lacking(c.probes)
		if !errors.Is(err, c.is) || c.is != nil && err == nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.is == fs.ErrPermission && errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v is both", name, err)
		}
	}
}
