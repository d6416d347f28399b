package ebpfprobes

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
	"github.com/peerdirect/peerdirect/ebpfprobes/internal/symbols"
)

// birthKey tells objects apart: addresses are used again.
type birthKey struct{ address, born uint64 }

// stackTable holds the stacks of objects: as they came, until it is worth unwinding
// them, since most objects end soon.
type stackTable struct {
	mu      sync.Mutex
	set     *symbols.Set
	pending map[birthKey]pendingStack
	known   map[birthKey]*stack
	unique  map[string]*stack
	closed  bool
}

type pendingStack struct {
	process  symbols.ID
	snapshot symbols.Snapshot
}

// stack is one that some objects of a process were made on.
type stack struct {
	process   symbols.ID
	addresses []uint64
	whole     bool
	frames    []symbols.Frame // named when it is first asked for
}

// mostPending bounds the memory of stacks that wait, 5 KiB each.
const mostPending = 4096

func (t *stackTable) reset() {
	t.set = symbols.NewSet()
	t.pending = make(map[birthKey]pendingStack)
	t.known, t.unique = make(map[birthKey]*stack), make(map[string]*stack)
}

func (t *stackTable) add(b *objects.LifecycleBirth, alive func(birthKey) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	p := pendingStack{process: symbols.ID{PID: int(b.Tgid), Began: b.Snapshot.Process}}
	t.set.See(p.process)
	p.snapshot = symbols.SnapshotOf(b.Snapshot.Registers[:],
		slices.Clone(b.Snapshot.Stack[:min(b.Snapshot.Bytes, uint32(len(b.Snapshot.Stack)))]),
		slices.Clone(b.Snapshot.Chain[:min(b.Snapshot.Frames, uint32(len(b.Snapshot.Chain)))]))
	t.pending[birthKey{b.Key, b.Born}] = p
	if len(t.pending) < mostPending {
		return
	}
	for k := range t.pending {
		if alive(k) {
			t.unwind(k)
		}
	}
	clear(t.pending)
}

// unwind makes a stack of one that waits.
func (t *stackTable) unwind(k birthKey) *stack {
	p, ok := t.pending[k]
	if !ok {
		return t.known[k]
	}
	delete(t.pending, k)
	addresses, whole := t.set.See(p.process).Unwind(p.snapshot)
	key := fmt.Sprintf("%v %x", p.process, addresses)
	s := t.unique[key]
	if s == nil {
		s = &stack{process: p.process, addresses: addresses, whole: whole}
		t.unique[key] = s
	}
	t.known[k] = s
	return s
}

// keep forgets the stacks of all but these objects.
func (t *stackTable) keep(alive map[birthKey]bool) {
	used, processes := make(map[*stack]bool), make(map[symbols.ID]bool)
	for k, s := range t.known {
		if !alive[k] {
			delete(t.known, k)
			continue
		}
		used[s], processes[s.process] = true, true
	}
	for k, s := range t.unique {
		if !used[s] {
			delete(t.unique, k)
		}
	}
	for _, p := range t.pending {
		processes[p.process] = true
	}
	t.set.Keep(func(id symbols.ID) bool { return processes[id] })
}

func (t *stackTable) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.set.Close()
}

// tell names a stack's functions.
func (t *stackTable) tell(s *stack) (frames []Frame, note string) {
	if s == nil {
		return nil, "the stack was not sent: the reader was too slow"
	}
	p := t.set.See(s.process)
	if s.frames == nil {
		s.frames = p.Name(s.addresses)
	}
	for _, f := range s.frames {
		frames = append(frames, Frame(f))
	}
	switch {
	case p.Err() != nil:
		note = strings.ReplaceAll(p.Err().Error(), "\n", "; ")
	case !s.whole:
		note = "the stack goes on: what was copied of it, or what its files tell of it, ends here"
	}
	return frames, note
}
