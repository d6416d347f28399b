//go:build lab

package ebpfprobes

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/kernel"
	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
)

// TestEFAWithoutFentry and TestWithoutFentry attach leaks, connections and errors as on a
// kernel that has kprobes alone.
func TestEFAWithoutFentry(t *testing.T) { testWithoutFentry(t) }
func TestWithoutFentry(t *testing.T)    { testWithoutFentry(t) }

func testWithoutFentry(t *testing.T) {
	t.Helper()
	can := findCapabilities()
	can.fentry = errors.New("not wanted")
	k := kernel.Open()
	for _, p := range []struct {
		purpose string
		table   []point
		load    func() (*ebpf.CollectionSpec, error)
	}{
		{"leaks", leakPoints, objects.LoadLifecycle},
		{"connections", connectionPoints, objects.LoadConnections},
		{"errors", errorPoints, objects.LoadErrors},
	} {
		var s session
		if err := s.open(p.purpose, p.table, p.load, processConstants(0), ""); err != nil {
			t.Fatal(err)
		}
		attached := 0
		for _, site := range resolve(k, p.purpose, p.table, can) {
			could := site.probe.Usable == Yes
			s.attached.attach(k, s.spec, s.maps, &site, can)
			switch {
			case could && site.probe.Usable != Yes:
				t.Errorf("%s: %v", p.purpose, site.probe)
			case could && site.point.tracepoint == "" && site.probe.By != ByKprobe:
				t.Errorf("%s: %v, and fentry was not wanted", p.purpose, site.probe)
			case could:
				attached++
			}
		}
		s.attached.tellsMisses = tellsMisses(k)
		missed, untold := s.runsMissed()
		t.Logf("%s: %d probes; %d runs missed, of %d return probes it is not told", p.purpose, attached, missed, untold)
		if (untold > 0) == s.attached.tellsMisses {
			t.Errorf("%s: %d return probes of which the kernel does not tell; it tells: %v", p.purpose, untold, s.attached.tellsMisses)
		}
		for _, site := range s.attached.sites {
			for _, l := range site.links {
				info, err := l.Info()
				if site.probe.By == ByKprobe && s.attached.tellsMisses && (err != nil || info.PerfEvent() == nil || info.PerfEvent().Kprobe() == nil) {
					t.Errorf("%s: %v: the kernel does not tell of the probe: %v", p.purpose, site.probe, err)
				}
			}
		}
		if attached < 3 {
			t.Errorf("%s: only %d probes are attached", p.purpose, attached)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
