package collective

import (
	"cmp"
	"runtime"

	"github.com/peerdirect/peerdirect/internal/uname"
	"github.com/peerdirect/peerdirect/transfer"
)

// Schema names the form of a Report in JSON; it changes when a field does.
const Schema = "peerdirect.bench.collective/1"

// Report is what was measured, and what follows from it.
type Report struct {
	Schema       string        `json:"schema"`
	Conditions   Conditions    `json:"conditions"`
	Measurements []Measurement `json:"measurements"`
	Hops         []Hop         `json:"hops"`
	Rails        []Rail        `json:"rails"`
	Verdict      []Finding     `json:"verdict"`
}

// Conditions are what the figures hold for.
type Conditions struct {
	Nodes      []int    `json:"nodes"` // numbers of nodes that were measured
	Bytes      []uint64 `json:"bytes"`
	Operations []string `json:"operations"`
	Rounds     int      `json:"rounds"`
	Seconds    float64  `json:"seconds"` // of a path in a round
	Verified   bool     `json:"verified"`
	Device     string   `json:"device"` // of node 0
	NICs       int      `json:"nics"`
	Transport  string   `json:"transport"`
	Path       string   `json:"queue_path"` // how work gets into the queues
	Embedded   bool     `json:"embedded"`   // software in one process
	Memory     []string `json:"memory"`     // of each node
	CPUs       []int    `json:"cpus"`       // of each node's process
	Kernel     string   `json:"kernel"`     // of node 0
	Arch       string   `json:"arch"`
}

// Measurement is one operation by one path: seconds an operation, medians over the
// rounds of the slowest node's, and means over the nodes of what they consist of.
type Measurement struct {
	Operation  string  `json:"operation"`
	Path       string  `json:"path"`
	Nodes      int     `json:"nodes"`
	Bytes      uint64  `json:"bytes"` // of the whole vector, at each node
	Iterations int     `json:"iterations"`
	Seconds    float64 `json:"seconds"`
	Least      float64 `json:"least_seconds"`
	Most       float64 `json:"most_seconds"`
	AlgGBs     float64 `json:"algorithm_gbytes_per_second"`
	BusGBs     float64 `json:"bus_gbytes_per_second"`
	Efficiency float64 `json:"efficiency"` // of the bus bandwidth of the fewest nodes
	Wait       float64 `json:"wait_seconds,omitempty"`
	Copy       float64 `json:"copy_seconds,omitempty"`
	Sum        float64 `json:"sum_seconds,omitempty"`
	Register   float64 `json:"register_seconds,omitempty"`
}

// Hop is what one node writes to the next while no other moves anything.
type Hop struct {
	From int     `json:"from"`
	To   int     `json:"to"`
	GBs  float64 `json:"gbytes_per_second"`
	Most float64 `json:"most_gbytes_per_second"` // in the best round
}

// Rail is what one NIC of a node carried with the most nodes, and where it sits.
type Rail struct {
	Node   int    `json:"node"`
	Device string `json:"device"`
	Near   bool   `json:"near"` // the memory is registered with it
	PCI    string `json:"pci,omitempty"`
	NUMA   *int   `json:"numa_node,omitempty"` // nil: not known
	Memory *int   `json:"memory_numa_node,omitempty"`
	Bytes  uint64 `json:"bytes"`
	Losses uint64 `json:"losses"`
}

// about is what a node says of itself when it comes.
type about struct {
	Kind   transfer.Kind
	Memory string
	CPUs   int
	Kernel string
}

func (n *node) look() about {
	return about{Kind: n.Place.Rails.Kind(), Memory: memoryName(n.Memory), CPUs: runtime.GOMAXPROCS(0), Kernel: uname.Release()}
}

func (c *Conditions) rails(all []transfer.Info) {
	c.Device, c.NICs, c.Transport, c.Path, c.Embedded = all[0].Device, len(all), all[0].Transport, all[0].Path, all[0].Embedded
	if len(all) > 1 {
		c.Device += ".." + all[len(all)-1].Device
	}
}

// complete adds what the options and the nodes say, and what follows.
func (r *Report) complete(o Options, nodes []about) {
	c := &r.Conditions
	c.Nodes, c.Bytes, c.Operations = o.Nodes, o.Sizes, o.Operations
	c.Rounds, c.Seconds, c.Verified = o.Rounds, o.Duration.Seconds(), !o.Unverified
	c.Kernel, c.Arch = nodes[0].Kernel, runtime.GOARCH
	for _, n := range nodes {
		c.Memory, c.CPUs = append(c.Memory, n.Memory), append(c.CPUs, n.CPUs)
	}
	r.efficiencies()
	r.Verdict = verdict(r)
}

// efficiencies compares with the fewest nodes.
func (r *Report) efficiencies() {
	for i := range r.Measurements {
		m := &r.Measurements[i]
		if base := r.find(m.Operation, m.Path, r.Conditions.Nodes[0], m.Bytes); base != nil && base.BusGBs > 0 {
			m.Efficiency = m.BusGBs / base.BusGBs
		}
	}
}

// find gives a measurement, nil if there is none.
func (r *Report) find(op, path string, nodes int, size uint64) *Measurement {
	for i := range r.Measurements {
		if m := &r.Measurements[i]; m.Operation == op && m.Path == path && m.Nodes == nodes && m.Bytes == size {
			return m
		}
	}
	return nil
}

func lastOf[T cmp.Ordered](list []T) T { return list[len(list)-1] }
