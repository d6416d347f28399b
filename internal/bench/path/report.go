package path

import (
	"cmp"
	"runtime"
	"slices"

	"github.com/peerdirect/peerdirect/internal/bench"
	"github.com/peerdirect/peerdirect/pci"
)

// Schema names the form of a Report in JSON; it changes when a field does.
const Schema = "peerdirect.bench.path/1"

// Report is what was measured between two GPUs.
type Report struct {
	Schema     string     `json:"schema"`
	GPUs       [2]GPU     `json:"gpus"`
	Access     Access     `json:"peer_access"`
	PCI        *Between   `json:"pci"` // null: not known
	Conditions Conditions `json:"conditions"`
	Rows       []Row      `json:"rows"`
	Verdict    []Finding  `json:"verdict"`
}

// GPU is one of the pair.
type GPU struct {
	Name    string  `json:"name"` // "cuda:0"
	Model   string  `json:"model"`
	Address string  `json:"pci_address"`
	Node    *int    `json:"numa_node"`                               // null: not known
	Link    float64 `json:"pci_link_gigabytes_per_second,omitempty"` // what its PCI Express link carries each way at most; 0: not known
	Engines int     `json:"copy_engines"`
}

// Access is what the driver says of the pair.
type Access struct {
	First   bool `json:"first_reaches_second"` // cuDeviceCanAccessPeer
	Second  bool `json:"second_reaches_first"`
	Rank    *int `json:"performance_rank"` // of the link, 0 the fastest kind here; null: not known
	Atomics bool `json:"native_atomics"`   // all atomic operations go over the link
}

// Conditions are what the figures hold for.
type Conditions struct {
	CUDA     string  `json:"cuda"` // what the driver serves, "13.0"
	Chunk    uint64  `json:"chunk_bytes"`
	Buffers  int     `json:"buffers"` // of the way pinned-piped, in each direction
	Depth    int     `json:"depth"`
	Rounds   int     `json:"rounds"`
	Seconds  float64 `json:"seconds"` // of a value in a round
	Verified uint64  `json:"verified_bytes"`
	Nodes    []int   `json:"numa_nodes"`                   // those with memory; null: not known
	Pinned   [2]*int `json:"pinned_memory_node"`           // of each direction; null: not known
	Unbound  string  `json:"nodes_not_compared,omitempty"` // why
	Virtual  bool    `json:"virtual_machine"`              // whose hypervisor decides what PCI and NUMA it shows
	CPUs     int     `json:"cpus"`
	Arch     string  `json:"arch"`
}

// Row is a way's figures for a size.
type Row struct {
	Way       Way    `json:"way"`
	Direction string `json:"direction"`           // "cuda:0 to cuda:1", or "both"
	Node      *int   `json:"numa_node,omitempty"` // of the pinned memory, where nodes were compared
	Size      uint64 `json:"size_bytes"`
	Alone     *Value `json:"alone_us,omitempty"` // one copy, from the call until it is done
	Rate      Value  `json:"gigabytes_per_second"`
	Copies    int    `json:"copies_back_to_back"`
}

// Value is a figure over the rounds.
type Value struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

func value(v []float64) Value {
	return Value{Median: bench.Median(v), Least: slices.Min(v), Most: slices.Max(v)}
}

// Both is the Direction of both at once, whose rates are of both together.
const Both = "both"

func (r *rig) report(all []key, values map[key]*series, checked uint64) *Report {
	rep := &Report{Schema: Schema, GPUs: r.facts, Access: Access{First: r.can[0], Second: r.can[1]},
		PCI: between(r.o.Topology, r.facts), Conditions: Conditions{
			CUDA: r.version, Chunk: r.o.Chunk, Buffers: r.o.Buffers, Depth: r.o.Depth, Rounds: r.o.Rounds, Seconds: r.o.Duration.Seconds(),
			Verified: checked, Nodes: memoryNodes(r.o.Topology), Virtual: r.o.Topology != nil && r.o.Topology.Platform.Virtual == pci.Yes, CPUs: runtime.NumCPU(), Arch: runtime.GOARCH,
		}}
	if rank, atomics, err := r.ends[0].gpu.link(r.ends[1].gpu); err == nil {
		rep.Access.Rank, rep.Access.Atomics = &rank, atomics
	}
	if r.unbound != nil {
		rep.Conditions.Unbound = r.unbound.Error()
	}
	for i, l := range r.lanes {
		if p := cmp.Or(l.piped, l.plain); p != nil {
			if node, err := nodeOf(p.buffers[0]); err == nil {
				rep.Conditions.Pinned[i] = &node
			}
		}
	}
	for _, k := range all {
		row := Row{Way: k.way, Size: k.size, Rate: value(values[k].rate), Copies: r.o.depth(k.size), Direction: Both}
		if k.lane != both {
			row.Direction = r.lanes[k.lane].String()
			alone := value(values[k].alone)
			row.Alone = &alone
		}
		if k.node >= 0 {
			row.Node = &r.nodes[k.node]
		}
		rep.Rows = append(rep.Rows, row)
	}
	rep.Verdict = verdict(rep)
	return rep
}

// directions are the two, in order.
func (r *Report) directions() [2]string {
	a, b := r.GPUs[0].Name, r.GPUs[1].Name
	return [2]string{a + " to " + b, b + " to " + a}
}

// sizes are those of the rows, in order.
func (r *Report) sizes() (sizes []uint64) {
	for _, row := range r.Rows {
		if !slices.Contains(sizes, row.Size) {
			sizes = append(sizes, row.Size)
		}
	}
	slices.Sort(sizes)
	return sizes
}

// find gives a row of the ways that are not compared by node; nil if it was not
// measured.
func (r *Report) find(w Way, direction string, size uint64) *Row {
	for i, row := range r.Rows {
		if row.Way == w && row.Direction == direction && row.Size == size && row.Node == nil {
			return &r.Rows[i]
		}
	}
	return nil
}

// onNode gives the row of a node's memory.
func (r *Report) onNode(node int, direction string, size uint64) *Row {
	for i, row := range r.Rows {
		if row.Node != nil && *row.Node == node && row.Direction == direction && row.Size == size {
			return &r.Rows[i]
		}
	}
	return nil
}
