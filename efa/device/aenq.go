package device

import (
	"sync"
	"time"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// aenqGroups are the groups of notifications that the device has: the driver
// refuses one that lacks any of these four.
const aenqGroups = 1<<wire.AENQFatalError | 1<<wire.AENQWarning | 1<<wire.AENQNotification | 1<<wire.AENQKeepAlive

// notifications is the asynchronous event notification queue. Who has something to
// tell may be any goroutine, so it has a lock of its own, the innermost but for the
// memory's hold.
type notifications struct {
	fn      *Function
	began   time.Time // of the timestamps
	ticker  *time.Ticker
	quit    chan struct{}
	stopped sync.WaitGroup
	once    sync.Once

	mu       sync.Mutex
	base     uint64
	depth    uint32 // 0 while there is no queue
	vector   uint8
	enabled  uint32 // groups, as bits
	producer uint32
	consumer uint32
	dropped  uint64 // for want of room
}

// start begins the keep-alives, which are told once the driver has enabled them.
func (n *notifications) start(f *Function) {
	n.fn, n.began, n.quit = f, time.Now(), make(chan struct{})
	if f.opts.KeepAlive < 0 {
		return
	}
	n.ticker = time.NewTicker(f.opts.KeepAlive)
	n.stopped.Go(func() {
		for {
			select {
			case <-n.quit:
				return
			case <-n.ticker.C:
				n.keepAlive()
			}
		}
	})
}

func (n *notifications) stop() {
	n.once.Do(func() {
		close(n.quit)
		if n.ticker != nil {
			n.ticker.Stop()
		}
	})
	n.stopped.Wait()
}

func (n *notifications) keepAlive() {
	dev := n.fn.dev
	// A device that has failed is not alive.
	if wire.DevStsFatalError.Get(n.fn.status.Load()) == 0 &&
		!dev.faults.Plan().DropKeepAlive && !dev.fabric.faults.Plan().DropKeepAlive {
		n.post(wire.AENQKeepAlive, 0, nil)
	}
}

// enable is a write of AENQ_CAPS, which comes after the base.
func (n *notifications) enable(base uint64, caps uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	depth := wire.AENQCapsDepth.Get(caps)
	n.depth, n.producer, n.consumer = 0, 0, 0
	if depth&(depth-1) == 0 && wire.AENQCapsEntrySize.Get(caps) == wire.SizeAENQEntry {
		n.base, n.depth = base, depth
		n.vector = uint8(wire.AENQCapsMSIXVector.Get(caps))
	}
}

// disable forgets the queue and what was enabled.
func (n *notifications) disable() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.depth, n.enabled, n.producer, n.consumer = 0, 0, 0, 0
}

// consumed is a write of AENQ_CONS_DB: the count of entries read.
func (n *notifications) consumed(count uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.consumer = count
}

func (n *notifications) config() wire.AENQConfig {
	n.mu.Lock()
	defer n.mu.Unlock()
	return wire.AENQConfig{Supported: aenqGroups, Enabled: n.enabled}
}

func (n *notifications) setGroups(groups uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.enabled = groups
}

// post writes a notification, if its group is enabled and there is room, and
// raises the interrupt.
func (n *notifications) post(group wire.AENQGroup, syndrome uint16, data []byte) {
	n.mu.Lock()
	if n.depth == 0 || n.enabled&(1<<group) == 0 {
		n.mu.Unlock()
		return
	}
	if n.producer-n.consumer >= n.depth {
		n.dropped++
		n.mu.Unlock()
		return
	}
	e := wire.AENQEntry{AENQDesc: wire.AENQDesc{
		Group:     group,
		Syndrome:  syndrome,
		Phase:     n.producer&n.depth == 0,
		Timestamp: uint64(time.Since(n.began).Microseconds()),
	}}
	copy(e.Data[:], data)
	var b [wire.SizeAENQEntry]byte
	e.Encode(b[:])
	at := n.base + uint64(n.producer&(n.depth-1))*wire.SizeAENQEntry
	// The phase is in the second word.
	publishAt(n.fn.opts.Memory, at, b[:], 4)
	n.producer++
	vector := n.vector
	n.mu.Unlock()
	n.fn.interrupt(vector)
}
