package pages

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
)

// TestSeveralReceiversAtOnce: all get all the pages, or each its share.
func TestSeveralReceiversAtOnce(t *testing.T) {
	const receivers = 3
	for _, divide := range []bool{false, true} {
		for _, read := range []bool{false, true} {
			t.Run(fmt.Sprintf("divide=%v/read=%v", divide, read), func(t *testing.T) {
				e := embedded(t, transfer.EmbeddedOptions{Nodes: receivers + 1, NICs: 2})
				sender := open(t, Options{Rail: e.Node(0)})
				var addrs []string
				var got []<-chan outcome
				for i := range receivers {
					l := listen(t, open(t, Options{Rail: e.Node(i + 1)}), "127.0.0.1:0", ListenOptions{})
					addrs, got = append(addrs, l.Addr().String()), append(got, receive(l))
				}
				layout := Layout{PageSize: 4096, Pages: 500, Stride: 2, Seed: 3}
				sent, err := sender.To(t.Context(), addrs, SendOptions{Layout: layout, Iterations: 2, Divide: divide, Read: read})
				if err != nil {
					t.Fatal(err)
				}
				var all uint64
				for i, s := range sent {
					r := within(t, time.Minute, got[i])
					if r.err != nil || !s.Verified || !r.result.Verified || s.Checksum != r.result.Checksum || s.Bytes != r.result.Bytes || s.Conditions.Remote != addrs[i] {
						t.Errorf("%v\n%s\n%s", r.err, show(s), show(r.result))
					}
					all += s.Bytes
				}
				want := 2 * layout.Bytes()
				if !divide {
					want *= receivers
				}
				if g := sent[0].Group; all != want || g == nil || g.Bytes != want || g.Done != receivers || g.Receivers != receivers || g.Seconds <= 0 {
					t.Errorf("%d bytes, not %d: %+v", all, want, g)
				}
			})
		}
	}
}

// TestAReceiverThatFailsHoldsUpNoOther: one damages a page, one wants less memory,
// one is not there.
func TestAReceiverThatFailsHoldsUpNoOther(t *testing.T) {
	e := embedded(t, transfer.EmbeddedOptions{Nodes: 4})
	layout := Layout{PageSize: 4096, Pages: 90, Stride: 1}
	o := []ListenOptions{{}, {MaxBytes: 4096}, {corrupt: func(mem []byte) { mem[7*4096] ^= 1 }}}
	var addrs []string
	var got []<-chan outcome
	for i := range o {
		l := listen(t, open(t, Options{Rail: e.Node(i + 1)}), "127.0.0.1:0", o[i])
		addrs, got = append(addrs, l.Addr().String()), append(got, receive(l))
	}
	sender := open(t, Options{Rail: e.Node(0), Peers: 4, Control: control.Options{Window: 2 * time.Second}})
	sent, err := sender.To(t.Context(), append(addrs, "127.0.0.1:1"), SendOptions{Layout: layout, Iterations: 3, Divide: false})
	var all *GroupError
	if !errors.As(err, &all) || len(all.Errs) != 3 || all.Of != 4 || !errors.Is(err, ErrVerification) || !strings.Contains(err.Error(), "3 of 4 receivers failed") {
		t.Errorf("%v", err)
	}
	if !sent[0].Verified || sent[0].Iterations != 3 || sent[0].Error != "" || sent[3] != nil {
		t.Errorf("the one that is well: %s", show(sent[0]))
	}
	if !strings.Contains(sent[1].Error, "--max-bytes") || sent[1].Verified {
		t.Errorf("over the limit: %s", show(sent[1]))
	}
	if fmt.Sprint(sent[2].Bad) != "[7]" || sent[2].Iterations != 1 {
		t.Errorf("damaged: %s", show(sent[2]))
	}
	if g := sent[0].Group; g.Done != 1 || g.Receivers != 4 {
		t.Errorf("%+v", g)
	}
	for i, want := range []error{nil, ErrLimit, ErrVerification} {
		if r := within(t, time.Minute, got[i]); !errors.Is(r.err, want) {
			t.Errorf("receiver %d: %v", i, r.err)
		}
	}
}

// TestDamageOfAShareIsNamedByTheSendersPage: what a receiver calls its page 5 is
// another of the sender's.
func TestDamageOfAShareIsNamedByTheSendersPage(t *testing.T) {
	e := embedded(t, transfer.EmbeddedOptions{Nodes: 3})
	layout := Layout{PageSize: 4096, Pages: 100, Stride: 2}
	var addrs []string
	var got []<-chan outcome
	for i, o := range []ListenOptions{{}, {corrupt: func(mem []byte) { mem[5*8192] ^= 1 }}} {
		l := listen(t, open(t, Options{Rail: e.Node(i + 1)}), "127.0.0.1:0", o)
		addrs, got = append(addrs, l.Addr().String()), append(got, receive(l))
	}
	sent, err := open(t, Options{Rail: e.Node(0)}).To(t.Context(), addrs, SendOptions{Layout: layout, Divide: true})
	for i := range got {
		within(t, time.Minute, got[i])
	}
	if !errors.Is(err, ErrVerification) || fmt.Sprint(sent[1].Bad) != "[55]" || sent[1].Conditions.PagesEach != 50 {
		t.Errorf("%v: %s", err, show(sent[1]))
	}
}

// TestAListenerServesSeveralSenders at the same time, and no more than it was opened
// for: each of them waits in the middle of its transfer until all are there.
func TestAListenerServesSeveralSenders(t *testing.T) {
	const senders = 3
	e := embedded(t, transfer.EmbeddedOptions{Nodes: senders + 2, NICs: 2})
	l := listen(t, open(t, Options{Rail: e.Node(0), Peers: senders}), "127.0.0.1:0", ListenOptions{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	var received []*Result
	served := make(chan struct{})
	go func() {
		defer close(served)
		l.Serve(ctx, func(r *Result, err error) {
			mu.Lock()
			defer mu.Unlock()
			if received = append(received, r); err != nil {
				t.Error(err)
			}
		})
	}()
	what := SendOptions{Layout: Layout{PageSize: 4096, Pages: 100, Stride: 2, Seed: 4}, Iterations: 3}
	var all sync.WaitGroup
	var there sync.WaitGroup
	there.Add(senders)
	over := make(chan struct{})
	for i := range senders {
		all.Go(func() {
			n := open(t, Options{Rail: e.Node(i + 1), Tell: during(func() {
				there.Done()
				there.Wait()
				<-over
			})})
			if o := send(t.Context(), n, l.Addr().String(), what); o.err != nil || !o.result.Verified {
				t.Errorf("sender %d: %v", i, o.err)
			}
		})
	}
	there.Wait()
	if o := send(t.Context(), open(t, Options{Rail: e.Node(senders + 1)}), l.Addr().String(), what); o.err == nil || !strings.Contains(o.err.Error(), "3 transfers go on already") {
		t.Errorf("one more than the listener takes: %v", o.err)
	}
	close(over)
	all.Wait()
	if o := send(t.Context(), open(t, Options{Rail: e.Node(senders + 1)}), l.Addr().String(), what); o.err != nil {
		t.Errorf("when there is room again: %v", o.err)
	}
	stop()
	<-served
	for _, r := range received {
		if !r.Verified || r.Iterations != 3 {
			t.Error(show(r))
		}
	}
	if len(received) != senders+1 {
		t.Errorf("%d transfers were received", len(received))
	}
}

func TestWhatCannotBeSent(t *testing.T) {
	e := embedded(t, transfer.EmbeddedOptions{})
	n := open(t, Options{Rail: e.Node(0), Peers: 2})
	good := Layout{PageSize: 4096, Pages: 2, Stride: 1}
	bad := good
	bad.PageSize = 5000
	for name, c := range map[string]struct {
		to     []string
		what   SendOptions
		option string
	}{
		"layout":     {[]string{"a:1"}, SendOptions{Layout: bad}, "pages"},
		"iterations": {[]string{"a:1"}, SendOptions{Layout: good, Iterations: -1}, "iterations"},
		"nobody":     {nil, SendOptions{Layout: good}, "peers"},
		"twice":      {[]string{"a:1", "a:1"}, SendOptions{Layout: good}, "peers"},
		"too many":   {[]string{"a:1", "b:1", "c:1"}, SendOptions{Layout: good}, "peers"},
		"too few":    {[]string{"a:1", "b:1"}, SendOptions{Layout: Layout{PageSize: 4096, Pages: 1, Stride: 1}, Divide: true}, "pages"},
	} {
		var wrong *transfer.OptionError
		if _, err := n.To(t.Context(), c.to, c.what); !errors.As(err, &wrong) || wrong.Option != c.option {
			t.Errorf("%s: %v", name, err)
		}
	}
	for option, o := range map[string]Options{
		"peers": {Peers: -1}, "queue pairs": {Queues: 100}, "batch": {Batch: -3}, "depth": {Batch: 20, Depth: 10}, "workers": {Workers: -1},
	} {
		o.Rail = e.Node(1)
		var wrong *transfer.OptionError
		if _, err := Open(o); !errors.As(err, &wrong) || wrong.Option != option {
			t.Errorf("%s: %v", option, err)
		}
	}
	for _, c := range [][2]int{{1, 1}, {2, 0}, {0, -1}} {
		var wrong *transfer.OptionError
		if _, _, err := Inside(t.Context(), e, c[0], c[1], Options{}, SendOptions{Layout: good}, nil); !errors.As(err, &wrong) || wrong.Option != "device" {
			t.Errorf("from %d to %d: %v", c[0], c[1], err)
		}
	}
}
