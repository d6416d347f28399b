package pages

import (
	"sync"
	"time"
)

// Stage is what a transfer is at.
type Stage string

// Stages, in order; the three in the middle come again with every iteration.
const (
	StageConnect  Stage = "connect"
	StageRegister Stage = "register"
	StageFill     Stage = "fill" // sender
	StageTransfer Stage = "transfer"
	StageVerify   Stage = "verify"
	StageDone     Stage = "done"
	StageFailed   Stage = "failed"
)

// Progress is what the transfer with one peer is at.
type Progress struct {
	Peer      string // its control connection's address
	Stage     Stage
	Iteration int // from 0
	Bytes     uint64
	Total     uint64        // of all iterations
	Moving    time.Duration // spent moving pages so far
}

// tellEvery is how often progress is told while pages move.
const tellEvery = 100 * time.Millisecond

// teller calls Options.Tell for the transfers that go on at once.
type teller struct {
	mu   sync.Mutex
	tell func(Progress)
}

func (t *teller) say(p Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tell(p)
}
