//go:build lab

package ebpfprobes

import (
	"errors"
	"slices"
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
		attached := s.byKprobes(t)
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

// RegistrationsByKprobes follows registrations as on a kernel that has kprobes alone, and
// where roles cannot be played, so that stand-ins are attached.
func RegistrationsByKprobes(t *testing.T, f Filter, unplayed ...string) (*RegistrationSession, error) {
	t.Helper()
	s, err := openRegistrations(f)
	if err == nil && s.byKprobes(t, unplayed...) < 5 {
		t.Errorf("only these are attached: %v", s.probes)
	}
	return s, err
}

// byKprobes attaches a session's programs by kprobes, and tells how many.
func (s *session) byKprobes(t *testing.T, unplayed ...string) (attached int) {
	t.Helper()
	k, can := kernel.Open(), findCapabilities()
	can.fentry = errors.New("not wanted")
	s.attached.tellsMisses = tellsMisses(k)
	sites := resolve(k, s.purpose, s.table, can)
	for i := range sites {
		if sites[i].unless == "" && slices.Contains(unplayed, sites[i].probe.Role) {
			sites[i].probe.Usable = No
		}
	}
	for _, i := range standInsLast(sites) {
		site := &sites[i]
		if site.probe.Usable != Yes || site.standsBy(sites) {
			continue
		}
		s.attached.attach(k, s.spec, s.maps, site, can)
		switch {
		case site.probe.Usable != Yes:
			t.Errorf("%s: %v", s.purpose, site.probe)
			continue
		case site.point.tracepoint == "" && site.probe.By != ByKprobe:
			t.Errorf("%s: %v, and fentry was not wanted", s.purpose, site.probe)
		}
		attached++
		s.probes = append(s.probes, site.probe)
	}
	return attached
}
