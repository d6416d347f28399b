package ebpfprobes

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
)

// tell gives the probes: a line for each file with marks.
func (m *marked) tell() (list []Probe) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.files {
		if f.probe.Role != "" {
			list = append(list, f.probe)
		}
	}
	if m.shed != "" {
		list = append(list, markedProbe("all", errors.New(m.shed)))
	}
	slices.SortFunc(list, func(a, b Probe) int { return cmp.Compare(a.Module, b.Module) })
	return list
}

// device names a device by the hash of its name.
func (m *marked) device(hash uint64) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if name, ok := m.devices[hash]; ok {
		return name
	}
	var n objects.CompletionsName
	if err := m.session.maps["marked_devices"].Lookup(hash, &n); err != nil {
		return ""
	}
	name := text(n.Text[:])
	m.devices[hash] = name
	return name
}

// Measure is what the programs cost the machine: see session.Measure. Marks are a probe of
// their own, in all files together.
func (s *CompletionSession) Measure(ctx context.Context, window time.Duration) (Overhead, error) {
	before, beforeErr := s.marked.program.Stats()
	o, err := s.session.Measure(ctx, window)
	after, afterErr := s.marked.program.Stats()
	if err != nil || beforeErr != nil || afterErr != nil || o.Over == 0 {
		return o, err
	}
	hits := after.RunCount - before.RunCount
	o.Probes = append(o.Probes, ProbeCost{Probe: markedProbe("all", nil), Hits: hits, Ran: after.Runtime - before.Runtime,
		Way: time.Duration(hits) * (hitCost(ByUprobe, false) + costStatistics)})
	slices.SortFunc(o.Probes, dearest)
	return o, nil
}

// Shed detaches one probe, and keeps it off: see session.Shed.
func (s *CompletionSession) Shed(p Probe, why string) error {
	if p.Role != markedRole {
		return s.session.Shed(p, why)
	}
	err := s.marked.end()
	s.marked.mu.Lock()
	s.marked.shed = why
	s.marked.mu.Unlock()
	return err
}
