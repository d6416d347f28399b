package peer

import (
	"io/fs"
	"os"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
)

// DefaultPort is the TCP port of the listener.
const DefaultPort = "18633"

// DefaultAddr is where a listener is unless told otherwise.
const DefaultAddr = "127.0.0.1:" + DefaultPort

// Options are a side's. Zero fields take the default in the comment.
type Options struct {
	Rail        transfer.Opener // one NIC
	Credentials control.Credentials
	Control     control.Options
	Version     string        // of the program, as the other side is told it
	Timeout     time.Duration // of each step; default 15 s
	Root        fs.FS         // where the machine's /sys is; default os.DirFS("/")

	// Tell is told of each step as it ends.
	Tell func(*Result, *Step)
	// Warn is a listener's: it is told of those who came and were not let in.
	Warn func(error)

	damage func(Name, []byte)       // a test's, before memory is compared
	limit  func(Name) time.Duration // a test's, instead of Timeout
}

func (o *Options) defaults() {
	if o.Timeout <= 0 {
		o.Timeout = 15 * time.Second
	}
	if o.Root == nil {
		o.Root = os.DirFS("/")
	}
	if o.Tell == nil {
		o.Tell = func(*Result, *Step) {}
	}
	if o.Warn == nil {
		o.Warn = func(error) {}
	}
	if o.damage == nil {
		o.damage = func(Name, []byte) {}
	}
	if o.limit == nil {
		o.limit = func(Name) time.Duration { return o.Timeout }
	}
	if o.Control.Handshake == 0 { // less than the step has: the error says what it waited for
		o.Control.Handshake = min(5*time.Second, o.Timeout*9/10)
	}
	if o.Control.Lease == 0 {
		o.Control.Lease = max(10*time.Millisecond, min(5*time.Second, o.Timeout))
	}
}

const (
	partTime = 2 * time.Second  // for the other side's last word
	idleTime = 30 * time.Second // of a dialler between two steps
)
