package peer

import (
	"context"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/peerdirect/peerdirect/verbs"
)

// known is what both sides of tests know.
func known(t testing.TB) control.Credentials {
	t.Helper()
	c, err := control.Token("known to all tests, and no secret")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// descriptors are those that the process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// nothingLeft checks in the end that objects, devices, descriptors and goroutines are
// what they were.
func nothingLeft(t *testing.T) {
	t.Helper()
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		l.Close() // the runtime opens its poller with the first, for good
	}
	files := descriptors(t)
	objects, memory, goroutines := efa.Live(), verbs.Live(), runtime.NumGoroutine()
	t.Cleanup(func() {
		if diff := cmp.Diff(objects, efa.Live()); diff != "" {
			t.Errorf("objects of EFA before and after:\n%s", diff)
		}
		if diff := cmp.Diff(memory, verbs.Live()); diff != "" {
			t.Errorf("objects of verbs before and after:\n%s", diff)
		}
		for end := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > goroutines || descriptors(t) > files; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				stacks := make([]byte, 1<<16)
				t.Fatalf("%d goroutines and %d descriptors, there were %d and %d:\n%s",
					runtime.NumGoroutine(), descriptors(t), goroutines, files, stacks[:runtime.Stack(stacks, true)])
			}
		}
	})
}

// embedded makes nodes.
func embedded(t *testing.T, o transfer.EmbeddedOptions) *transfer.Embedded {
	t.Helper()
	e, err := transfer.NewEmbedded(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := len(e.Fabric().Devices()); n > 0 {
			t.Errorf("%d devices are left on the fabric", n)
		}
		e.Close()
	})
	return e
}

// patience is of a step: long for a busy machine, where the test is not of a deadline.
const patience = time.Minute

// listener listens until the end of the test.
func listener(t *testing.T, addr string, o Options) *Listener {
	t.Helper()
	if o.Credentials == (control.Credentials{}) {
		o.Credentials = known(t)
	}
	if o.Timeout == 0 {
		o.Timeout = patience
	}
	l, err := Listen(context.Background(), addr, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

type outcome struct {
	result *Result
	err    error
}

// receive is the other side of one test, in the background.
func receive(ctx context.Context, l *Listener) <-chan outcome {
	c := make(chan outcome, 1)
	go func() {
		r, err := l.Receive(ctx)
		c <- outcome{r, err}
	}()
	return c
}

// within fails the test if it takes longer.
func within(t testing.TB, limit time.Duration, c <-chan outcome) outcome {
	t.Helper()
	select {
	case o := <-c:
		return o
	case <-time.After(limit):
		t.Fatalf("not ended after %v", limit)
		return outcome{}
	}
}

// pair are the two sides of a test over embedded nodes.
type pair struct {
	nodes        *transfer.Embedded
	here, there  Options
	dialler, far outcome
}

func newPair(t *testing.T) *pair {
	t.Helper()
	e := embedded(t, transfer.EmbeddedOptions{PeerTimeout: 200 * time.Millisecond})
	c := known(t)
	return &pair{
		nodes: e,
		here:  Options{Rail: e.Node(0), Credentials: c, Timeout: patience, Version: "here"},
		there: Options{Rail: e.Node(1), Credentials: c, Timeout: patience, Version: "there"},
	}
}

// run tests the path between the two, and gives both sides' results.
func (p *pair) run(t *testing.T) (here, there outcome) {
	t.Helper()
	l := listener(t, "127.0.0.1:0", p.there)
	got := receive(context.Background(), l)
	r, err := Check(context.Background(), l.Addr().String(), p.here)
	p.dialler, p.far = outcome{r, err}, within(t, 2*time.Minute, got)
	return p.dialler, p.far
}
