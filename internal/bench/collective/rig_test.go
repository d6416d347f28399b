package collective

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
)

const patience = time.Minute

// nothingLeft gives a function that reports goroutines, descriptors and devices'
// objects more than there are now. What was ended may take a while to go.
func nothingLeft(t *testing.T) func() {
	t.Helper()
	descriptors := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	// The first socket has the runtime open its poller, for good.
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	} else if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	goroutines, files := runtime.NumGoroutine(), descriptors()
	return func() {
		t.Helper()
		if live := efa.Live(); len(live) > 0 {
			t.Errorf("objects are left: %v", live)
		}
		for deadline := time.Now().Add(patience); runtime.NumGoroutine() > goroutines || descriptors() > files; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<20)
				t.Fatalf("%d goroutines, %d before; %d descriptors, %d before:\n%s", runtime.NumGoroutine(), goroutines, descriptors(), files,
					stacks[:runtime.Stack(stacks, true)])
			}
		}
	}
}

// cluster is nodes that are started one by one, as on several machines.
type cluster struct {
	t      *testing.T
	fabric *transfer.Embedded
	token  control.Credentials
	listen *control.Listener
	peers  []string
	o      Options
	wait   time.Duration
}

func newCluster(t *testing.T, nodes int, o Options) *cluster {
	t.Helper()
	c := &cluster{t: t, o: o, wait: patience, peers: make([]string, nodes)}
	var err error
	if c.fabric, err = transfer.NewEmbedded(transfer.EmbeddedOptions{Nodes: nodes}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.fabric.Close() })
	if c.token, err = control.Token(rand.Text()); err != nil {
		t.Fatal(err)
	}
	if err := c.o.check(nodes); err != nil {
		t.Fatal(err)
	}
	c.listen, err = control.Listen(t.Context(), "127.0.0.1:0", c.token, control.Options{Lease: c.o.Timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.listen.Close() })
	for i := range c.peers {
		c.peers[i] = fmt.Sprintf("127.0.0.1:%d", i+1)
	}
	c.peers[0] = c.listen.Addr().String()
	return c
}

func (c *cluster) place(rank int) Place {
	return Place{Rank: rank, Peers: c.peers, Credentials: c.token, Rails: c.fabric.Node(rank), Wait: c.wait}
}

// run runs nodes, each with its context, and gives the errors by rank; those left out
// have none.
func (c *cluster) run(ctx func(rank int) context.Context, ranks ...int) []error {
	errs := make([]error, len(c.peers))
	var all sync.WaitGroup
	for _, rank := range ranks {
		all.Go(func() {
			if rank > 0 {
				errs[rank] = follow(ctx(rank), c.o, c.place(rank))
				return
			}
			var r *Report
			if r, errs[0] = lead(ctx(0), c.o, c.place(0), c.listen); errs[0] == nil && len(r.Measurements) == 0 {
				errs[0] = errors.New("an empty report")
			}
		})
	}
	all.Wait()
	return errs
}

func (c *cluster) within(int) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	c.t.Cleanup(cancel)
	return ctx
}
