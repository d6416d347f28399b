//go:build lab

package dmabuf

import (
	"syscall"
	"testing"
)

func TestWithoutDescriptorsNothingIsLeftHalfMade(t *testing.T) {
	eachExporter(t, func(t *testing.T, e Exporter) {
		worked := false
		for room := 0; room < 8 && !worked; room++ {
			undo := exhaust(t, room)
			m, err := e.Allocate(page)
			var b *Buffer
			if err == nil {
				b, err = m.Export(0, page)
			}
			undo()
			if err != nil {
				refused(t, err, syscall.EMFILE, e.Name(), "ulimit -n")
			} else {
				worked = true
				b.Close()
			}
			if m != nil {
				m.Close()
			}
			if n := Live(); len(n) != 0 {
				t.Fatalf("with room for %d descriptors: left %v", room, n)
			}
		}
		if !worked {
			t.Error("eight descriptors are not enough")
		}
		// Exports until none are left: the one that fails costs none.
		m := made[Memory](t)(e.Allocate(page))
		undo := exhaust(t, 5)
		var all []*Buffer
		var err error
		for err == nil {
			var b *Buffer
			if b, err = m.Export(0, page); err == nil {
				all = append(all, b)
			}
		}
		undo()
		refused(t, err, syscall.EMFILE, e.Name(), "close buffers")
		if len(all) == 0 || len(all) > 5 {
			t.Errorf("%d exports with five descriptors", len(all))
		}
		for _, b := range all {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
