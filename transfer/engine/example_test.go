package engine_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/verbs"
)

// The whole life of two engines: rails, memory, a peer, a write with a notice, and
// the end. Both are in this process, on two NICs each; on two machines the opener is
// transfer.Named's and the token, or better certificates, is given to both.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	nodes, err := transfer.NewEmbedded(transfer.EmbeddedOptions{Nodes: 2, NICs: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close() // after the engines
	token, err := control.Token(rand.Text())
	if err != nil {
		log.Fatal(err)
	}

	address, finished := make(chan string, 1), make(chan error, 1)
	go func() { finished <- owner(ctx, nodes.Node(0), token, address) }()
	select {
	case addr := <-address:
		err = writer(ctx, nodes.Node(1), token, addr)
	case err = <-finished:
		log.Fatal(err)
	}
	if err := errors.Join(err, <-finished); err != nil {
		log.Fatal(err)
	}
	// Unordered output:
	// writer: 2 pages of 4096 bytes done
	// owner: page 1 holds "second", page 6 holds "first"
}

// side is an engine with registered memory.
type side struct {
	*engine.Engine
	buf    *verbs.Buffer
	region *engine.Region
}

// openSide makes one; NICs reach memory outside of Go's heap.
func openSide(o transfer.Opener, name string, size int) (_ *side, err error) {
	n := new(side)
	n.Engine, err = engine.New(engine.Options{Name: name, Rails: engine.Specs(o, transfer.Want{Peers: 4}, 1)})
	if err != nil {
		return nil, err
	}
	if n.buf, err = verbs.NewBuffer(size, verbs.BufferOptions{}); err == nil {
		n.region, err = n.Register(n.buf.Bytes())
	}
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// close closes the engine, which leaves its peers and ends its regions; from then
// on no NIC touches the memory, and it may go.
func (n *side) close() error {
	err := n.Close()
	if err == nil && n.buf != nil {
		err = n.buf.Close()
	}
	return err
}

// owner is the side whose memory is written.
func owner(ctx context.Context, o transfer.Opener, c control.Credentials, address chan<- string) (err error) {
	n, err := openSide(o, "owner", 8*4096)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	l, err := n.Listen(ctx, "127.0.0.1:0", c, control.Options{})
	if err != nil {
		return err
	}
	defer l.Close()
	address <- l.Addr().String()
	peer, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	if err := peer.Grant("pages", n.region, engine.Write); err != nil {
		return err
	}
	if err := peer.Counter(7).Wait(ctx, 1); err != nil {
		return err
	}
	text := func(page int) []byte { return n.buf.Bytes()[page*4096:] }
	fmt.Printf("owner: page 1 holds %q, page 6 holds %q\n", text(1)[:6], text(6)[:5])
	if err := peer.Send(ctx, []byte("seen")); err != nil {
		return err
	}
	select { // the side that waits for nothing more leaves first
	case <-peer.Gone():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// writer is the side that writes two pages of its own into two of the owner's.
func writer(ctx context.Context, o transfer.Opener, c control.Credentials, addr string) (err error) {
	n, err := openSide(o, "writer", 4*4096)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	peer, err := n.Join(ctx, addr, c, control.Options{})
	if err != nil {
		return err
	}
	pages, err := peer.Target(ctx, "pages") // waits until it is granted
	if err != nil {
		return err
	}
	copy(n.buf.Bytes(), "first")
	copy(n.buf.Bytes()[3*4096:], "second")
	t, err := peer.Write(ctx, engine.Move{Local: n.region, Remote: pages, PageSize: 4096,
		LocalPages:  engine.Pages{Index: []uint32{0, 3}},
		RemotePages: engine.Pages{Index: []uint32{6, 1}},
		Notify:      engine.Counts(7)})
	if err != nil {
		return err
	}
	if err := t.Wait(ctx); err != nil {
		return err
	}
	if moved, of := t.Progress(); moved == of {
		fmt.Println("writer: 2 pages of 4096 bytes done")
	}
	_, err = peer.Receive(ctx) // the owner has seen them
	return err
}
