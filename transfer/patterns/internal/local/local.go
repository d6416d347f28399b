// Package local makes nodes on embedded devices for the examples and tests of
// the patterns. On real machines a node is an engine on the machine's own NICs,
// and two of them meet by Engine.Listen and Engine.Join.
package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
)

// Cluster is some nodes in this process.
type Cluster struct {
	Fabric *transfer.Embedded
	Nodes  []*engine.Engine
	// NICs are each node's devices, where tests inject faults.
	NICs [][]*device.Device

	o engine.Options
}

// New makes the nodes. None is joined to another.
func New(o transfer.EmbeddedOptions, eo engine.Options) (*Cluster, error) {
	fabric, err := transfer.NewEmbedded(o)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Fabric: fabric, Nodes: make([]*engine.Engine, fabric.Nodes()), NICs: make([][]*device.Device, fabric.Nodes()), o: eo}
	for i := range c.Nodes {
		if err := c.Restart(i); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// Restart closes a node, if it is there, and opens it anew: another incarnation,
// which knows nobody and whose memory nobody knows.
func (c *Cluster) Restart(i int) error {
	if c.Nodes[i] != nil {
		if err := c.Nodes[i].Close(); err != nil {
			return err
		}
	}
	o := c.o
	o.Name = fmt.Sprintf("node%d", i)
	o.Rails = engine.Specs(c.Fabric.Node(i), transfer.Want{Peers: 2 * c.Fabric.Nodes()}, 1)
	e, err := engine.New(o)
	if err != nil {
		return err
	}
	c.Nodes[i] = e
	// Those that no other node has are this one's.
	others := make(map[*device.Device]bool)
	for k, nics := range c.NICs {
		for _, nic := range nics {
			others[nic] = k != i
		}
	}
	c.NICs[i] = nil
	for _, nic := range c.Fabric.Fabric().Devices() {
		if !others[nic] {
			c.NICs[i] = append(c.NICs[i], nic)
		}
	}
	return nil
}

// Join joins two nodes and gives each as the other sees it.
func (c *Cluster) Join(ctx context.Context, i, k int) (atI, atK *engine.Peer, err error) {
	dialled, accepted := engine.Pipe()
	ended := make(chan error, 1)
	go func() {
		var err error
		atK, err = c.Nodes[k].Connect(ctx, accepted, false)
		ended <- err
	}()
	atI, err = c.Nodes[i].Connect(ctx, dialled, true)
	err = errors.Join(err, <-ended) // before atK is read
	return atI, atK, err
}

// Close closes the nodes, and the fabric below them.
func (c *Cluster) Close() error {
	var errs []error
	for _, e := range c.Nodes {
		if e != nil {
			errs = append(errs, e.Close())
		}
	}
	return errors.Join(append(errs, c.Fabric.Close())...)
}
