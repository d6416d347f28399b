package engine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/verbs"
)

// unacknowledged is a rail that says it is iWARP.
type unacknowledged struct{ engine.Rail }

func (u unacknowledged) Info() transfer.Info {
	i := u.Rail.Info()
	i.Transport = transfer.IWARP
	return i
}

// iwarpRails makes that of so many NICs of a node.
func iwarpRails(nics transfer.Opener, n int) (specs []engine.RailSpec) {
	for _, s := range engine.Specs(nics, transfer.Want{Peers: 2}, 1)[:n] {
		specs = append(specs, engine.RailSpec{Open: func() (engine.Rail, error) {
			r, err := s.Open()
			if err != nil {
				return nil, err
			}
			return unacknowledged{r}, nil
		}})
	}
	return specs
}

// TestRailsThatAcknowledgeNothing: an engine has one of them and no other, and what
// failed there is not done again: nobody knows what had come.
func TestRailsThatAcknowledgeNothing(t *testing.T) {
	fabric, err := transfer.NewEmbedded(transfer.EmbeddedOptions{NICs: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer fabric.Close()
	var wrong *engine.OptionError
	if e, err := engine.New(engine.Options{Rails: iwarpRails(fabric.Node(0), 2)}); !errors.As(err, &wrong) || wrong.Option != "rails" || e != nil {
		t.Fatalf("two of them: %v", err)
	}
	ctx := within(t)
	var nodes [2]*engine.Engine
	var peers [2]*engine.Peer
	for i := range nodes {
		if nodes[i], err = engine.New(engine.Options{Rails: iwarpRails(fabric.Node(i), 1)}); err != nil {
			t.Fatal(err)
		}
		defer nodes[i].Close()
	}
	dialled, accepted := engine.Pipe()
	ended := make(chan error, 1)
	go func() {
		var err error
		peers[1], err = nodes[1].Connect(ctx, accepted, false)
		ended <- err
	}()
	peers[0], err = nodes[0].Connect(ctx, dialled, true)
	if err := errors.Join(err, <-ended); err != nil {
		t.Fatal(err)
	}
	var regions [2]*engine.Region
	for i := range regions {
		buf, err := verbs.NewBuffer(4096, verbs.BufferOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer buf.Close()
		if regions[i], err = nodes[i].Register(buf.Bytes()); err != nil {
			t.Fatal(err)
		}
		defer regions[i].Close()
	}
	if err := peers[1].Grant("memory", regions[1], engine.Write); err != nil {
		t.Fatal(err)
	}
	target, err := peers[0].Target(ctx, "memory")
	if err != nil {
		t.Fatal(err)
	}
	write := func() error {
		w, err := peers[0].Write(ctx, engine.Move{Local: regions[0], Remote: target, Segments: []engine.Segment{{Length: 4096}}, Notify: engine.Counts(1)})
		if err != nil {
			return err
		}
		return w.Wait(ctx)
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
	fabric.Fabric().Faults().Set(device.FaultPlan{Abort: 1})
	if err := write(); !errors.Is(err, engine.ErrLost) || !strings.Contains(err.Error(), "iWARP does not tell") {
		t.Errorf("a write whose rail failed: %v", err)
	}
	<-peers[0].Fenced()
}
