// Package path measures what each way between two GPUs of one machine carries:
// straight from one to the other, and through pinned and through pageable memory
// of the host; and it checks every byte that came.
package path

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/pci"
	"github.com/peerdirect/peerdirect/transfer/report"
)

// Way is how bytes go from one GPU to the other.
type Way string

const (
	PeerWrite Way = "peer-write"     // the source's GPU copies, with peer access
	PeerRead  Way = "peer-read"      // the destination's GPU copies, with peer access
	NoAccess  Way = "without-access" // cuMemcpyPeerAsync where peer access is not enabled: the driver's own choice
	Piped     Way = "pinned-piped"   // through a few pinned buffers, chunk by chunk
	Plain     Way = "pinned-plain"   // down into one pinned buffer, then up from it
	Pageable  Way = "pageable"       // the same, through memory that is not pinned
)

// Ways are all, in the order of tables.
func Ways() []Way { return []Way{PeerWrite, PeerRead, NoAccess, Piped, Plain, Pageable} }

// peer tells whether a way needs peer access.
func (w Way) peer() bool { return w == PeerWrite || w == PeerRead }

// label is a way's name in tables.
func (w Way) label() string {
	return map[Way]string{PeerWrite: "peer write", PeerRead: "peer read", NoAccess: "no access",
		Piped: "piped", Plain: "plain", Pageable: "pageable"}[w]
}

// Options say what to measure. Zero fields take the default in the comment.
type Options struct {
	GPUs     [2]int        // ordinals of CUDA; they differ
	Ways     []Way         // default all
	Min, Max uint64        // sizes, bytes; default 4 KiB and 256 MiB. Sizes go in fours from Min, and Max is one
	Chunk    uint64        // of Piped, bytes; default 2 MiB
	Buffers  int           // of Piped, in each direction; default 2
	Depth    int           // copies on their way at once where they go back to back; default 16
	Rounds   int           // of everything; medians count; default 5
	Duration time.Duration // of one value in a round; default 20 ms
	Both     bool          // measure both directions at once as well
	Trust    bool          // do not check what came

	Topology *pci.Topology // of this machine; nil is unknown
	// Tell is told of each measurement that begins.
	Tell func(Progress)
}

// Progress is how far it is.
type Progress struct {
	Done, Total int
	What        string
}

// Check finds what makes no sense.
func (o Options) Check() error { return o.defaults() }

func (o *Options) defaults() error {
	set := func(v *uint64, def uint64) {
		if *v == 0 {
			*v = def
		}
	}
	set(&o.Max, 256<<20)
	set(&o.Min, min(4<<10, o.Max))
	set(&o.Chunk, 2<<20)
	if o.Buffers == 0 {
		o.Buffers = 2
	}
	if o.Depth == 0 {
		o.Depth = 16
	}
	if o.Rounds == 0 {
		o.Rounds = 5
	}
	if o.Duration == 0 {
		o.Duration = 20 * time.Millisecond
	}
	if len(o.Ways) == 0 {
		o.Ways = Ways()
	}
	const most = 4 << 30
	a, b := o.GPUs[0], o.GPUs[1]
	switch {
	case a < 0 || b < 0:
		return fmt.Errorf("cuda:%d cuda:%d: GPUs are numbered from 0", a, b)
	case a == b:
		return fmt.Errorf("cuda:%d cuda:%d: a GPU and itself are no pair, nothing lies between; name two", a, b)
	case o.Min > o.Max || o.Max > most:
		return fmt.Errorf("--min %v, --max %v: sizes go from 1 byte to 4 GiB, upwards", report.Bytes(o.Min), report.Bytes(o.Max))
	case o.Chunk < 4<<10 || o.Chunk > 256<<20:
		return fmt.Errorf("--chunk %v: it is 4 KiB to 256 MiB", report.Bytes(o.Chunk))
	case o.Buffers < 1 || o.Buffers > 64:
		return fmt.Errorf("--buffers %d: it is 1 to 64", o.Buffers)
	case o.Depth < 1 || o.Depth > 1024:
		return fmt.Errorf("--depth %d: it is 1 to 1024", o.Depth)
	case o.Rounds < 1 || o.Rounds > 1000:
		return fmt.Errorf("--rounds %d: it is 1 to 1000", o.Rounds)
	case o.Duration < time.Millisecond || o.Duration > time.Minute:
		return fmt.Errorf("--duration %v: it is 1ms to 1m", o.Duration)
	}
	for i, w := range o.Ways {
		if !slices.Contains(Ways(), w) {
			return fmt.Errorf("--ways %s: there are %s", w, strings.Join(wayNames(), ", "))
		}
		if slices.Contains(o.Ways[:i], w) {
			return fmt.Errorf("--ways: %s is named twice", w)
		}
	}
	return nil
}

func wayNames() (names []string) {
	for _, w := range Ways() {
		names = append(names, string(w))
	}
	return names
}

// sizes are the options' in order.
func (o *Options) sizes() (sizes []uint64) {
	for s := o.Min; s < o.Max; s *= 4 {
		sizes = append(sizes, s)
	}
	return append(sizes, o.Max)
}

// inFlight bounds the bytes of one direction that are on their way.
const inFlight = 256 << 20

// depth is how many copies of a size go back to back: two at the least, so that one
// can hide what another waits for.
func (o *Options) depth(size uint64) int {
	if o.Depth == 1 {
		return 1
	}
	return int(min(uint64(o.Depth), max(2, inFlight/size)))
}

// span is what each direction's memory holds.
func (o *Options) span() uint64 { return max(o.Max, min(inFlight/4, o.Max*uint64(o.Depth))) }

// Run measures. It is back when all is freed, except where the driver does not
// come back from a call: then nothing is freed, and the error says so. An end of
// ctx is seen between two copies.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	return watched(hung, func(beat func()) (*Report, error) { return run(ctx, o, cudaDriver{}, beat) })
}

// hung is how long nothing may happen. Pinning gigabytes takes seconds, a copy of
// the largest size less than that.
const hung = time.Minute

// HungError: the driver does not come back.
type HungError struct {
	After time.Duration
}

func (e *HungError) Error() string {
	return fmt.Sprintf("the driver has not come back from a call for %v, and holds what it had; look for Xid or NVRM in the kernel log, and for a GPU that nvidia-smi does not answer for", e.After)
}

// watched runs f in a goroutine, for no call of the driver takes a deadline, and
// gives it up once it has not beaten for so long.
func watched(limit time.Duration, f func(beat func()) (*Report, error)) (*Report, error) {
	type end struct {
		r   *Report
		err error
	}
	done, beats := make(chan end, 1), make(chan struct{}, 1)
	go func() {
		r, err := f(func() {
			select {
			case beats <- struct{}{}:
			default:
			}
		})
		done <- end{r, err}
	}()
	alarm := time.NewTimer(limit)
	defer alarm.Stop()
	for {
		select {
		case e := <-done:
			return e.r, e.err
		case <-beats:
			alarm.Reset(limit)
		case <-alarm.C:
			return nil, &HungError{limit}
		}
	}
}
