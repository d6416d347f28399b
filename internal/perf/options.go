package perf

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/verbs/exchange"
	"golang.org/x/sys/unix"
)

// Op is what a message does.
type Op string

const (
	Write  Op = "write"
	Read   Op = "read"
	Send   Op = "send"
	Atomic Op = "atomic" // fetch and add, 8 bytes
)

// Test is what is measured.
type Test string

const (
	Bandwidth Test = "bw"
	Latency   Test = "lat"
)

// Transport carries the messages.
type Transport string

const (
	RDMA   Transport = "rdma"
	TCP    Transport = "tcp"
	Memcpy Transport = "memcpy"
)

// Defaults, which are the field's habits.
const (
	DefaultPort      = 18515
	DefaultTimeout   = time.Minute
	defaultSizeBW    = 64 << 10
	defaultSizeLat   = 2
	defaultItersBW   = 5000
	defaultItersLat  = 1000
	defaultTxDepth   = 128
	defaultRxDepth   = 512
	defaultCQMod     = 100
	defaultQPTimeout = 14
	inlineWrite      = 220
	inlineSend       = 236
	atomicSize       = 8
	maxSize          = 1 << 30
	largestAll       = 8 << 20
	maxQPs           = 16384
	maxDepth         = 1 << 30
	maxPeakMessages  = 20000 // the peak of longer runs is not looked for

	// Over this size each message has a completion of its own, unless asked
	// for otherwise: with few and long messages the last moderated
	// completion would come late enough to show in the result.
	moderateUpTo = 8 << 10
)

// Auto leaves a number to the defaults.
const Auto = -1

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

// Options are one side's. Start from Defaults.
type Options struct {
	Workload
	Server  string        // the server's address; empty: be the server
	Listen  string        // address that a server binds to; empty: loopback
	TCPPort int           //
	Device  string        // empty: the only one
	IBPort  int           //
	GID     int           // index, or Auto
	SL      int           //
	Events  bool          // sleep on completion events
	Timeout time.Duration // of every wait
	Version string        // of the program, for the report

	// Given names the flags that the user gave: a server that was given a
	// workload does not take another one.
	Given map[string]bool

	// beforeCheck lets a test spoil the received bytes before they are
	// verified.
	beforeCheck func(received []byte)
}

// Defaults are the options of a test without any flag; what is Auto or zero
// is settled by Check.
func Defaults(op Op, test Test) Options {
	return Options{
		Workload: Workload{
			Op: op, Test: test, Transport: RDMA,
			QPs: 1, RxDepth: defaultRxDepth, Inline: Auto, List: 1, QPTimeout: defaultQPTimeout,
		},
		TCPPort: DefaultPort, IBPort: 1, GID: Auto, Timeout: DefaultTimeout,
	}
}

// UsageError is a mistake in the options: the remedy is on the command line.
// It is an exchange.ErrUsage.
type UsageError struct{ Problem string }

func (e *UsageError) Error() string { return e.Problem }
func (e *UsageError) Unwrap() error { return exchange.ErrUsage }

func usage(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// Check settles what was left to the defaults and finds what no device is
// needed to find.
func (o *Options) Check() error {
	if err := o.checkSide(); err != nil {
		return err
	}
	return o.Workload.check(o.Events)
}

func (o *Options) checkSide() error {
	switch {
	case o.TCPPort < 1 || o.TCPPort > 65535:
		return usage("port %d: TCP ports are 1 to 65535", o.TCPPort)
	case o.IBPort < 1 || o.IBPort > 255:
		return usage("device port %d: they are numbered from 1", o.IBPort)
	case o.GID < Auto:
		return usage("GID index %d: they are numbered from 0", o.GID)
	case o.SL < 0 || o.SL > 15:
		return usage("service level %d: there are 0 to 15", o.SL)
	case o.Timeout <= 0:
		return usage("timeout %v: it must be above 0", o.Timeout)
	case o.Server != "" && o.Listen != "":
		return usage("--listen is for the server, and %s was given as its address to be the client of", o.Server)
	case o.Transport == Memcpy && (o.Server != "" || o.Listen != ""):
		return usage("memcpy runs both sides in this process: give no address")
	}
	return nil
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

// adopt takes the client's workload, unless it contradicts what this side's
// user asked for.
func (o *Options) adopt(client Workload) error {
	mine := o.Workload
	if mine.Op != client.Op || mine.Test != client.Test || mine.Transport != client.Transport {
		return usage("the server runs %s %s over %s, the client %s %s over %s",
			mine.Op, mine.Test, mine.Transport, client.Op, client.Test, client.Transport)
	}
	theirs := client.flags()
	for i, f := range mine.flags() {
		if o.Given[f.name] && f.value != theirs[i].value {
			return usage("--%s is %v at the server and %v at the client", f.name, f.value, theirs[i].value)
		}
	}
	if err := client.check(false); err != nil {
		return err
	}
	o.Workload = client
	return o.Workload.check(o.Events)
}

// address is where the server listens, or what the client dials.
func (o *Options) address() string {
	host := o.Server
	if host == "" {
		host = o.Listen
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(o.TCPPort))
}

// ParseSize reads a number of bytes, with K, M or G for powers of 1024.
func ParseSize(s string) (int, error) {
	digits, unit := s, 1
	if n := len(s); n > 0 {
		switch s[n-1] {
		case 'k', 'K':
			unit = 1 << 10
		case 'm', 'M':
			unit = 1 << 20
		case 'g', 'G':
			unit = 1 << 30
		}
		if unit > 1 {
			digits = s[:n-1]
		}
	}
	v, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || strings.HasPrefix(digits, "+") || v > math.MaxInt32/uint64(unit) {
		return 0, usage("size %q: give bytes, as 4096, 64K or 1M", s)
	}
	return int(v) * unit, nil
}
