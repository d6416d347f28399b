//go:build lab

package ebpfprobes_test

import (
	"testing"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// TestRegistrationsByKprobes follows registrations by kprobes alone: from the file operation,
// and by what stands in for it and for the drivers' operations. All is as by fentry.
func TestRegistrationsByKprobes(t *testing.T)    { byKprobes(t, 4<<10, 20_000) }
func TestEFARegistrationsByKprobes(t *testing.T) { byKprobes(t, 1<<20, 1000) }

func byKprobes(t *testing.T, length, count int) {
	for _, c := range []struct {
		name     string
		unplayed []string
	}{
		{"all", nil},
		{"no file operation", []string{"whole call"}},
		{"no driver", []string{"whole call", "deregistering"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			open := func(f ebpfprobes.Filter) (*ebpfprobes.RegistrationSession, error) {
				return ebpfprobes.RegistrationsByKprobes(t, f, c.unplayed...)
			}
			t.Run("counted", func(t *testing.T) { counted(t, open, length, count) })
			t.Run("one by one", func(t *testing.T) { oneByOne(t, open) })
			t.Run("failing", func(t *testing.T) { failing(t, open) })
			t.Run("left", func(t *testing.T) { left(t, open) })
		})
	}
}
