package collective

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
)

// Embedded runs all nodes inside this process, on software EFA devices. They meet as
// nodes on several machines do, over the loopback interface, by a token that nobody
// else knows.
func Embedded(ctx context.Context, o Options, fabric *transfer.Embedded, memory dmabuf.Exporter) (*Report, error) {
	n := fabric.Nodes()
	if err := o.check(n); err != nil {
		return nil, err
	}
	token, err := control.Token(rand.Text())
	if err != nil {
		return nil, err
	}
	place := func(rank int) Place {
		return Place{Rank: rank, Credentials: token, Rails: fabric.Node(rank), Memory: memory, damage: o.damage}
	}
	first := place(0)
	l, err := control.Listen(ctx, "127.0.0.1:0", token, controlOptions(o, first))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	peers := make([]string, n)
	for i := range peers {
		peers[i] = net.JoinHostPort("127.0.0.1", "0")
	}
	peers[0] = l.Addr().String()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, n)
	var report *Report
	var all sync.WaitGroup
	for rank := range n {
		all.Go(func() {
			p := place(rank)
			p.Peers = peers
			if errs[rank] = p.check(); errs[rank] != nil {
				return
			}
			if rank > 0 {
				errs[rank] = follow(ctx, o, p)
			} else {
				report, errs[0] = lead(ctx, o, p, l)
			}
			if errs[rank] != nil {
				cancel() // one that never came is not waited for
			}
		})
	}
	all.Wait()
	for rank, err := range errs[1:] {
		if err != nil && (errs[0] == nil || errors.Is(errs[0], context.Canceled) && !errors.Is(err, context.Canceled)) {
			errs[0] = fmt.Errorf("node %d: %w", rank+1, err)
		}
	}
	if errs[0] != nil {
		return nil, errs[0]
	}
	return report, nil
}
