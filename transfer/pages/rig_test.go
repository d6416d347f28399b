package pages

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/peerdirect/peerdirect/verbs"
)

// labToken is no secret.
const labToken = "known to all tests, and no secret"

// known is what the nodes of tests know each other by.
func known(t testing.TB) control.Credentials {
	t.Helper()
	c, err := control.Token(labToken)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// embedded makes nodes, and checks that nothing is left of them in the end.
func embedded(t *testing.T, o transfer.EmbeddedOptions) *transfer.Embedded {
	t.Helper()
	objects, memory, goroutines := efa.Live(), verbs.Live(), runtime.NumGoroutine()
	e, err := transfer.NewEmbedded(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := len(e.Fabric().Devices()); n > 0 {
			t.Errorf("%d devices are left on the fabric", n)
		}
		e.Close()
		if diff := cmp.Diff(objects, efa.Live()); diff != "" {
			t.Errorf("objects of EFA before and after:\n%s", diff)
		}
		if diff := cmp.Diff(memory, verbs.Live()); diff != "" {
			t.Errorf("objects of verbs before and after:\n%s", diff)
		}
		deadline := time.Now().Add(30 * time.Second)
		for runtime.NumGoroutine() > goroutines && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond)
		}
		if n := runtime.NumGoroutine(); n > goroutines {
			stacks := make([]byte, 1<<16)
			t.Errorf("%d goroutines, there were %d:\n%s", n, goroutines, stacks[:runtime.Stack(stacks, true)])
		}
	})
	return e
}

// open opens a node, which is closed in the end.
func open(t testing.TB, o Options) *Node {
	t.Helper()
	o.Credentials = known(t)
	n, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// listen has a node listen until the end.
func listen(t testing.TB, n *Node, addr string, o ListenOptions) *Listener {
	t.Helper()
	l, err := n.Listen(context.Background(), addr, o)
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

// receive receives one transfer in the background.
func receive(l *Listener) <-chan outcome {
	c := make(chan outcome, 1)
	go func() {
		r, err := l.Receive(context.Background())
		c <- outcome{r, err}
	}()
	return c
}

// send sends to one listener.
func send(ctx context.Context, n *Node, addr string, what SendOptions) outcome {
	results, err := n.To(ctx, []string{addr}, what)
	if len(results) == 0 {
		return outcome{nil, err}
	}
	return outcome{results[0], err}
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

// show is a result without the check of every page.
func show(r *Result) string {
	if r == nil {
		return "no result"
	}
	short := *r
	short.PageOK = nil
	return fmt.Sprintf("%+v", short)
}

// during runs something once, between two rounds of pages.
func during(f func()) func(Progress) {
	var once sync.Once
	return func(p Progress) {
		if p.Stage == StageFill && p.Iteration > 0 {
			once.Do(f)
		}
	}
}

// endless is for transfers that something ends.
var endless = SendOptions{Layout: Layout{PageSize: 4 << 10, Pages: 256, Stride: 2, Seed: 5}, Iterations: maxIterations}
