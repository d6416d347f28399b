package ebpfprobes

import (
	"sync"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
	"github.com/peerdirect/peerdirect/ebpfprobes/internal/symbols"
)

// framesOf unwinds and names the stacks of processes.
type framesOf struct {
	mu   sync.Mutex
	set  *symbols.Set
	seen map[symbols.ID]bool // since the set was last emptied
}

// mostSeen is of how many processes files and mappings are kept.
const mostSeen = 256

func (f *framesOf) of(pid int, s *objects.RegistrationsSnapshot) []Frame {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := symbols.ID{PID: pid, Began: s.Process}
	if f.set == nil {
		f.set, f.seen = symbols.NewSet(), make(map[symbols.ID]bool)
	}
	if !f.seen[id] && len(f.seen) >= mostSeen {
		f.set.Close()
		clear(f.seen)
	}
	f.seen[id] = true
	p := f.set.See(id)
	addresses, _ := p.Unwind(symbols.SnapshotOf(s.Registers[:], s.Stack[:min(s.Bytes, uint32(len(s.Stack)))],
		s.Chain[:min(s.Frames, uint32(len(s.Chain)))]))
	frames := make([]Frame, 0, len(addresses))
	for _, frame := range p.Name(addresses) {
		frames = append(frames, Frame(frame))
	}
	return frames
}

func (f *framesOf) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.set != nil {
		f.set.Close()
	}
}
