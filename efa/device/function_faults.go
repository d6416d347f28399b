package device

import (
	"sync"
	"sync/atomic"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// AdminFault is something that goes wrong with admin commands, to see what a
// driver makes of it.
type AdminFault struct {
	Opcode wire.Opcode // whose; 0 for any command's
	Count  int         // of how many commands; 0 stands for 1

	// Status other than success refuses the command without doing it.
	Status wire.AdminStatus
	// NoCompletion does the command and never says so: the driver times out.
	NoCompletion bool
	// NoInterrupt completes the command and does not tell.
	NoInterrupt bool
	// BadChecksum spoils the completion's checksum, if the version has one.
	BadChecksum bool
}

// adminFaults are the faults that wait for their commands.
type adminFaults struct {
	lost atomic.Bool // the device lost its state; see Function.happened

	some  atomic.Bool
	mu    sync.Mutex
	queue []AdminFault
}

// InjectAdmin makes a fault happen to the next commands that it fits. Several
// happen one after the other.
func (f *Function) InjectAdmin(a AdminFault) {
	a.Count = max(a.Count, 1)
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	f.faults.queue = append(f.faults.queue, a)
	f.faults.some.Store(true)
}

// take gives the fault that strikes a command, nil if none does.
func (a *adminFaults) take(op wire.Opcode) *AdminFault {
	if !a.some.Load() {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.queue {
		fault := a.queue[i]
		if fault.Opcode != 0 && fault.Opcode != op {
			continue
		}
		if a.queue[i].Count--; a.queue[i].Count == 0 {
			a.queue = append(a.queue[:i], a.queue[i+1:]...)
			a.some.Store(len(a.queue) > 0)
		}
		return &fault
	}
	return nil
}
