package perf

import (
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/verbs/exchange"
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
