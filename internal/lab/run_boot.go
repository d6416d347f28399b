package lab

import (
	"fmt"
	"path/filepath"
	"time"
)

func (r *labRun) boot(node int) (*guest, error) {
	m := &machine{
		qemu: r.qemu, root: r.root,
		name: fmt.Sprintf("node%d", node), node: node,
		cpus: r.CPUs, memory: r.Memory, accel: r.Accel, iommu: r.IOMMU, acs: r.ACS,
		agent: r.Agent, source: r.Source, out: r.Out, logs: r.logs,
		mtu:          jumbo,
		efa:          r.efa.sockets(node),
		accelerators: r.accelerators.node(node), acceleratorMemory: r.Accelerators.Memory,
	}
	if r.module != nil {
		m.module = r.module.dir
	}
	if r.layer != nil {
		m.layer = filepath.Join(r.layer.dir, "tree")
	}
	if r.QEMU != nil {
		var err error
		if m.extra, m.extraFDs, err = r.QEMU(node); err != nil {
			return nil, fmt.Errorf("node%d: %w", node, err)
		}
	}
	return m.boot()
}

func (r *labRun) setup(node int) guestSetup {
	s := guestSetup{
		Node: node, Prefix: 24, MTU: jumbo, Link: r.Link, EFA: r.EFA.Count, Accelerators: r.Accelerators.Count, Modules: r.Modules,
		Out: r.Out != "", Kernel: r.Kernel.Series, Command: r.Command, Env: r.Env,
	}
	for n := range r.Nodes {
		s.Addrs = append(s.Addrs, nodeAddr(n))
	}
	if t := r.Terminal; t != nil {
		s.Window = &windowSize{Rows: uint16(t.Rows), Cols: uint16(t.Cols)}
		s.Term = t.Name
	}
	return s
}

// nodeAddr gives a node's address, out of the range that RFC 5737 sets aside
// for examples: it cannot be anyone's.
func nodeAddr(node int) string { return fmt.Sprintf("192.0.2.%d", node+1) }

// bootLimits are how long guests may take until all are ready, apart from what
// each adds to the load: in the first boot, and in the ones after a hang.
var bootLimits = []time.Duration{90 * time.Second, 2 * time.Minute, 4 * time.Minute}
