package transfer

import (
	"testing"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/verbs"
)

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
