package perf

import (
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// Workload is what both sides must agree on. The client's travels to the
// server.
type Workload struct {
	Op            Op            `json:"op"`
	Test          Test          `json:"test"`
	Transport     Transport     `json:"transport"`
	Size          int           `json:"size_bytes"`
	All           bool          `json:"all_sizes"`
	Iters         int           `json:"iterations"`
	Duration      time.Duration `json:"duration_ns"` // instead of Iters
	QPs           int           `json:"queue_pairs"`
	TxDepth       int           `json:"tx_depth"`
	RxDepth       int           `json:"rx_depth"`
	Bidirectional bool          `json:"bidirectional"`
	Inline        int           `json:"inline_bytes"` // Auto: the default, or what the device has if less
	List          int           `json:"post_list"`
	CQMod         int           `json:"cq_moderation"`
	MTU           int           `json:"mtu_bytes"` // 0: the port's
	QPTimeout     int           `json:"qp_timeout"`
	Verify        bool          `json:"verify"`
}

func (w *Workload) check(events bool) error {
	bw := w.Test == Bandwidth
	switch w.Op {
	case Write, Read, Send, Atomic:
	default:
		return usage("no operation %q: choose write, read, send or atomic", w.Op)
	}
	if !bw && w.Test != Latency {
		return usage("no test %q: choose bw or lat", w.Test)
	}
	switch w.Transport {
	case RDMA, TCP, Memcpy:
	default:
		return usage("no transport %q: choose rdma, tcp or memcpy", w.Transport)
	}
	if w.Transport == TCP && w.Op == Atomic {
		return fmt.Errorf("a TCP socket has no atomic operations: %w", errors.ErrUnsupported)
	}
	w.defaults()
	return w.checkNumbers(bw, events)
}

func (w *Workload) defaults() {
	bw := w.Test == Bandwidth
	pick := func(v *int, forBW, forLat int) {
		if *v == 0 {
			*v = forLat
			if bw {
				*v = forBW
			}
		}
	}
	if w.Op == Atomic {
		pick(&w.Size, atomicSize, atomicSize)
	}
	pick(&w.Size, defaultSizeBW, defaultSizeLat)
	if w.Duration == 0 {
		pick(&w.Iters, defaultItersBW, defaultItersLat)
	}
	pick(&w.TxDepth, defaultTxDepth, 1)
	if w.CQMod == 0 {
		switch {
		case !bw, w.Size > moderateUpTo && !w.All && w.List == 1:
			w.CQMod = 1
		case w.List > 1:
			w.CQMod = w.List
		default:
			w.CQMod = min(defaultCQMod, w.TxDepth)
		}
	}
}

func (w *Workload) checkNumbers(bw, events bool) error {
	switch {
	case w.Op == Atomic && (w.Size != atomicSize || w.All):
		return usage("atomic operations have 8 bytes: give no size")
	case w.Size < 1 || w.Size > maxSize:
		return usage("size %d: messages have 1 byte to 1G", w.Size)
	case w.Iters != 0 && w.Duration != 0:
		return usage("-n and -D exclude each other")
	case w.Duration < 0 || w.Duration == 0 && w.Iters < 1:
		return usage("nothing to do: give -n or -D a number above 0")
	case w.Iters > math.MaxInt32:
		return usage("%d iterations: at most %d; use -D", w.Iters, math.MaxInt32)
	case w.QPs < 1 || w.QPs > maxQPs:
		return usage("%d queue pairs: 1 to %d", w.QPs, maxQPs)
	case !bw && w.QPs != 1:
		return usage("latency is measured on one queue pair")
	case !bw && w.Bidirectional:
		return usage("-b is for bandwidth")
	case !bw && w.List != 1:
		return usage("-l is for bandwidth")
	case w.TxDepth < 1 || w.RxDepth < 1 || max(w.TxDepth, w.RxDepth) > maxDepth:
		return usage("a queue holds 1 to %d requests: -t %d, -r %d", maxDepth, w.TxDepth, w.RxDepth)
	case w.List < 1 || w.List > w.TxDepth:
		return usage("-l %d: a list has 1 request to as many as the send queue holds (-t %d)", w.List, w.TxDepth)
	case w.Iters%w.List != 0:
		return usage("-n %d is no multiple of -l %d", w.Iters, w.List)
	case w.CQMod < 1 || w.CQMod > w.TxDepth || (w.CQMod+w.List-1)/w.List*w.List > w.TxDepth:
		return usage("-Q %d: a completion can stand for 1 request to as many as the send queue holds (-t %d, in lists of %d)", w.CQMod, w.TxDepth, w.List)
	case w.Inline < Auto || w.Inline > maxSize:
		return usage("-I %d: a request carries 0 bytes to 1G, mostly some hundred at most", w.Inline)
	case w.Inline > 0 && (w.Op == Read || w.Op == Atomic):
		return usage("-I is for write and send: a %s carries no data of its own", w.Op)
	case w.MTU != 0 && !validMTU(w.MTU):
		return usage("-m %d: choose 256, 512, 1024, 2048 or 4096", w.MTU)
	case w.QPTimeout < 0 || w.QPTimeout > 31:
		return usage("-u %d: the queue pair timeout is 0 to 31", w.QPTimeout)
	case events && w.Op == Write && !bw && w.Transport == RDMA:
		return usage("-e: a write raises no event at its target; its latency is measured by looking at memory")
	case w.Bidirectional && w.Transport == Memcpy:
		return usage("-b is for two machines, not for memcpy")
	case w.QPs != 1 && w.Transport == Memcpy:
		return usage("-q is for rdma and tcp, not for memcpy")
	}
	return w.checkMemory()
}

// checkMemory refuses what the machine cannot hold, before the memory is asked
// for: a client chooses what a server allocates.
func (w *Workload) checkMemory() error {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return nil
	}
	const request = 256 // bytes in memory of one request, generously
	lay := newLayout(w)
	rings := uint64(w.List*lay.slots+w.TxDepth+w.RxDepth) * request * uint64(w.QPs)
	need, have := uint64(lay.total())+rings, uint64(info.Totalram)*uint64(info.Unit)
	if need > have/2 {
		return usage("the test needs %d MiB of memory, and this machine has %d: fewer queue pairs (-q), smaller messages (-s)", need>>20, have>>20)
	}
	return nil
}

func validMTU(bytes int) bool {
	return bytes >= 256 && bytes <= 4096 && bytes&(bytes-1) == 0
}

// sizes are the messages' sizes, one run each.
func (w *Workload) sizes() []int {
	if !w.All {
		return []int{w.Size}
	}
	var out []int
	for s := 2; s <= largestAll; s *= 2 {
		out = append(out, s)
	}
	return out
}

// largest is the size that buffers must hold.
func (w *Workload) largest() int {
	if w.All {
		return largestAll
	}
	return w.Size
}

// setting is a flag of a workload with what it sets.
type setting struct {
	name  string
	value any
}

func (w *Workload) flags() []setting {
	return []setting{
		{"size", w.Size}, {"all", w.All}, {"iters", w.Iters}, {"duration", w.Duration},
		{"qp", w.QPs}, {"tx-depth", w.TxDepth}, {"rx-depth", w.RxDepth},
		{"bidirectional", w.Bidirectional}, {"inline-size", w.Inline}, {"post-list", w.List},
		{"cq-mod", w.CQMod}, {"mtu", w.MTU}, {"qp-timeout", w.QPTimeout}, {"verify", w.Verify},
	}
}
