package main

import (
	"fmt"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/internal/lab"
	"github.com/spf13/cobra"
)

// labEFA are the flags that say which EFA devices the machines have.
type labEFA struct {
	lab.EFA
	api     string
	inOrder bool
	tell    bool
	stats   efaStats
	flap    efaFlap
}

func (l *labEFA) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&l.Count, "efa", 0, fmt.Sprintf("EFA `devices` of each machine, up to %d (default none)", lab.MaxEFA))
	f.StringVar(&l.api, "efa-api", "0.3", "`version` of their admin interface: 0.1, 0.2 or 0.3")
	f.IntVar(&l.Function.SubCQs, "efa-sub-cqs", 1, "sub-CQs in their completion queues, 1 or 2")
	f.Float64Var(&l.Faults.Loss, "efa-loss", 0, "`share` of packets that their fabric loses, 0 to 1 (default 0)")
	f.Uint64Var(&l.Fabric.Seed, "efa-seed", 0, "seed of the fabric's order of delivery, losses and addresses (default 0)")
	f.DurationVar(&l.flap.every, "efa-flap", 0, "take the links of their devices down one after the other, each for half of this time (default never)")
	f.BoolVar(&l.inOrder, "efa-in-order", false, "deliver in order, which SRD does not promise")
	f.BoolVar(&l.tell, "efa-stats", false, "at the end tell how many bytes each read and wrote in host memory and in accelerators")
	complete(cmd, "efa-api", "0.1", "0.2", "0.3")
	complete(cmd, "efa-sub-cqs", "1", "2")
}

// options judges the flags and gives what the lab wants to know.
func (l *labEFA) options() (lab.EFA, error) {
	o := l.EFA
	var known bool
	switch o.Function.APIVersion, known = apiVersions[l.api]; {
	case !known:
		return o, usageError{fmt.Errorf("--efa-api %s: choose 0.1, 0.2 or 0.3", l.api)}
	case o.Function.SubCQs != 1 && o.Function.SubCQs != 2:
		return o, usageError{fmt.Errorf("--efa-sub-cqs %d: choose 1 or 2", o.Function.SubCQs)}
	case o.Faults.Loss < 0 || o.Faults.Loss >= 1:
		return o, usageError{fmt.Errorf("--efa-loss %g: a share from 0 to below 1", o.Faults.Loss)}
	}
	if l.flap.every < 0 {
		return o, usageError{fmt.Errorf("--efa-flap %v: a time above 0", l.flap.every)}
	}
	o.Fabric.InOrder = l.inOrder
	o.Faults.Seed = o.Fabric.Seed
	o.Made = func(node, index int, f *device.Function) {
		if l.tell {
			l.stats.made(node, index, f)
		}
		l.flap.made(node, index, f)
	}
	return o, nil
}
