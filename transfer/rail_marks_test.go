package transfer

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/internal/marker"
	"github.com/peerdirect/peerdirect/verbs"
)

// While a tracer is attached, transfers arrive and fail as they do without.
func TestTransfersAreMarked(t *testing.T) {
	if !marker.Built {
		t.Skip("built without cgo: there are no marks")
	}
	_, _, semaphore := marker.Sites()
	atomic.StoreUint32(semaphore, 1) // as the kernel does
	t.Cleanup(func() { atomic.StoreUint32(semaphore, 0) })
	o := SendOptions{Layout: Layout{PageSize: 4096, Pages: 300, Stride: 2, Seed: 3}, Iterations: 2, Options: Options{Timeout: 20 * time.Second}}
	e := embedded(t, EmbeddedOptions{NICs: 2})
	sent, received, err := e.Transfer(t.Context(), 1, 0, o)
	if err != nil {
		t.Fatal(err)
	}
	if !sent.Verified || !received.Verified || sent.Bytes != 2*o.Layout.Bytes() {
		t.Errorf("%+v\n%+v", sent, received)
	}
	e.Fabric().Faults().Set(device.FaultPlan{Abort: 1})
	if _, _, err := e.Transfer(t.Context(), 1, 0, o); err == nil {
		t.Error("operations that are given up were no obstacle")
	}
}

func TestWordsOfMarks(t *testing.T) {
	for kind, want := range map[OpKind]verbs.Opcode{OpWrite: verbs.Write, OpNotify: verbs.WriteImm, OpSend: verbs.Send, OpRead: verbs.Read} {
		if got := opcodeOf(&Op{Kind: kind}); got != uint32(want) {
			t.Errorf("kind %d is opcode %d", kind, got)
		}
	}
	for status, want := range map[efa.Status]verbs.Status{
		efa.StatusOK: verbs.StatusSuccess, efa.StatusFlushed: verbs.StatusFlushed, efa.StatusRemoteAddress: verbs.StatusRemoteAccess,
		efa.StatusUnresponsive: verbs.StatusRetryExceeded, efa.StatusInvalidLKey: verbs.StatusLocalProtection, 200: verbs.StatusGeneral,
	} {
		if got := verbsStatus(status); got != uint32(want) {
			t.Errorf("%v is status %d", status, got)
		}
	}
}

// A mark's bit in a request's ID is not one of the queue pair's number.
func TestQueuePairsBesideMarks(t *testing.T) {
	if last := uint64(maxQueues-1) << idQueue; last&(idMarked|idDouble|idHalf|idRecv) != 0 || last>>idQueue&idQueueMask != maxQueues-1 {
		t.Errorf("queue pair %d is %#x in an ID", maxQueues-1, last)
	}
	for _, c := range []struct {
		queues, peers int
		ok            bool
	}{{1, 4096, true}, {1, 4097, false}, {4, 1024, true}, {4, 1025, false}, {64, 64, true}} {
		o := RCOptions{Queues: c.queues, Peers: c.peers}
		if err := o.defaults(); (err == nil) != c.ok {
			t.Errorf("%d queue pairs to each of %d peers: %v", c.queues, c.peers, err)
		}
	}
}
