package collective

import (
	"math"
	"strings"
	"testing"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }

// TestFigures: bandwidths as nccl-tests define them.
func TestFigures(t *testing.T) {
	for _, test := range []struct {
		op     string
		nodes  int
		factor float64
	}{{AllReduce, 2, 1}, {AllReduce, 4, 1.5}, {AllReduce, 8, 1.75}, {AllGather, 2, 0.5}, {AllGather, 4, 0.75}, {AllGather, 8, 0.875}} {
		if got := busFactor(test.op, test.nodes); !near(got, test.factor) {
			t.Errorf("%s among %d: %g, want %g", test.op, test.nodes, got, test.factor)
		}
	}
	m := measurement(AllReduce, Direct, 4, 1e9, 7, []took{{Total: 2, Wait: 1}, {Total: 0.5, Sum: 0.25}, {Total: 1, Wait: 0.5, Copy: 0.125}})
	if !near(m.Seconds, 1) || m.Least != 0.5 || m.Most != 2 || !near(m.AlgGBs, 1) || !near(m.BusGBs, 1.5) || m.Wait != 0.5 || m.Copy != 0 || m.Iterations != 7 {
		t.Errorf("%+v", m)
	}
	if algorithmBandwidth(1, 0) != 0 {
		t.Error("no time gives a bandwidth")
	}
	// The slowest node decides; the parts are means.
	got := together([]reply{{Took: took{Total: 10, Wait: 4}}, {Took: took{Total: 20, Wait: 8, Register: 2}}}, 10)
	if !near(got.Total, 2) || !near(got.Wait, 0.6) || !near(got.Register, 0.1) {
		t.Errorf("%+v", got)
	}
}

// model is a made-up cluster: each operation takes its latency, and its bytes at a
// rate; changes make something of it slow.
type model struct {
	latency, rate float64 // seconds; GB/s of a hop
	change        func(m *Measurement)
	hops          func(*Hop)
	rails         func(*Rail)
	embedded      bool
}

func (m model) report() *Report {
	r := &Report{Schema: Schema, Conditions: Conditions{
		Nodes: []int{2, 4}, Bytes: []uint64{1 << 10, 16 << 10, 1 << 20, 64 << 20}, Operations: operations, Rounds: 3, Seconds: 0.1, Verified: true,
		Device: "efa_0..efa_1", NICs: 2, Transport: "EFA SRD", Path: "direct", Embedded: m.embedded, Kernel: "7.3.4", Arch: "amd64",
		Memory: []string{"host", "host", "host", "host"}, CPUs: []int{2, 2, 2, 2},
	}}
	slower := map[string]float64{Direct: 1, Registered: 1, Staged: 1.5, TCP: 3}
	for _, op := range operations {
		for _, nodes := range r.Conditions.Nodes {
			for _, size := range r.Conditions.Bytes {
				for _, path := range paths {
					steps := steps(op, nodes)
					x := Measurement{Operation: op, Path: path, Nodes: nodes, Bytes: size, Iterations: 10}
					x.Seconds = steps*m.latency + slower[path]*busFactor(op, nodes)*float64(size)/1e9/m.rate
					switch path {
					case Registered:
						x.Register = 50e-6
						x.Seconds += x.Register
					case Staged:
						x.Copy = x.Seconds / 3
					}
					if m.change != nil {
						m.change(&x)
					}
					x.Least, x.Most = x.Seconds*0.9, x.Seconds*1.1
					x.AlgGBs = algorithmBandwidth(size, x.Seconds)
					x.BusGBs = x.AlgGBs * busFactor(op, nodes)
					r.Measurements = append(r.Measurements, x)
				}
			}
		}
	}
	for from := range 4 {
		h := Hop{From: from, To: (from + 1) % 4, GBs: m.rate, Most: m.rate}
		if m.hops != nil {
			m.hops(&h)
		}
		r.Hops = append(r.Hops, h)
		for i := range 2 {
			zero := 0
			x := Rail{Node: from, Near: true, Device: []string{"efa_0", "efa_1"}[i], Bytes: 1 << 30, PCI: []string{"0000:10:00.0", "0000:20:00.0"}[i], NUMA: &zero, Memory: &zero}
			if m.rails != nil {
				m.rails(&x)
			}
			r.Rails = append(r.Rails, x)
		}
	}
	r.efficiencies()
	r.Verdict = verdict(r)
	return r
}

func plain() model { return model{latency: 10e-6, rate: 10} }

func TestVerdict(t *testing.T) {
	with := func(f func(*model)) model { m := plain(); f(&m); return m }
	slowAt := func(by float64, when func(*Measurement) bool, also func(*Measurement)) func(*Measurement) {
		return func(m *Measurement) {
			if when(m) {
				m.Seconds *= by
				if also != nil {
					also(m)
				}
			}
		}
	}
	big := func(m *Measurement) bool { return m.Bytes == 64<<20 }
	direct := func(m *Measurement) bool { return m.Path == Direct || m.Path == Registered }
	many := func(m *Measurement) bool { return m.Nodes == 4 }
	one := 1
	for _, test := range []struct {
		name  string
		m     model
		about string
		falls bool
		text  []string
	}{
		{"nothing wrong", with(func(m *model) { m.latency = 1e-9 }), FindCurve, false, []string{"does not fall", "GB/s at 64 MiB among 4 nodes"}},
		{"latency", plain(), FindLatency, false, []string{"to 16 KiB it is bound by latency", "10us a step"}},
		{"the detour costs", plain(), FindPath, false, []string{"through-host", "copying is 33% of its time", "takes 1.50 times the time of direct"}},
		{"TCP costs", plain(), FindPath, false, []string{"tcp takes 2.9"}},
		{"shares and places are right", plain(), FindPlacement, false, []string{"on the NUMA node of the memory"}},
		{"registration counts for small sizes", plain(), FindRegistration, false, []string{"from 64 MiB on less than 10%", "50us"}},
		{"registration counts for all", with(func(m *model) {
			m.change = func(x *Measurement) {
				if x.Path == Registered {
					x.Register = x.Seconds
					x.Seconds *= 2
				}
			}
		}), FindRegistration, true, []string{"register once"}},
		{"registration is free", with(func(m *model) {
			m.change = func(x *Measurement) {
				if x.Path == Registered {
					x.Seconds -= x.Register
				}
			}
		}), FindRegistration, false, []string{"less than noise"}},
		{"falls with size by the sum", with(func(m *model) {
			m.change = slowAt(2, func(x *Measurement) bool { return big(x) && x.Operation == AllReduce }, func(x *Measurement) { x.Sum = x.Seconds / 2 })
		}), FindCurve, true, []string{"falls with size", "at 1 MiB", "the CPU: adding is 50%"}},
		{"a dip", with(func(m *model) {
			m.change = slowAt(9, func(x *Measurement) bool { return x.Bytes == 1<<20 }, nil)
			m.latency = 1e-9
		}),
			FindCurve, true, []string{"dips, and rises again, with size", "at 1 MiB"}},
		{"falls with size by copies", with(func(m *model) {
			m.change = slowAt(2, big, func(x *Measurement) { x.Copy = x.Seconds * 0.6 })
		}), FindCurve, true, []string{"the path: copying", "60%"}},
		{"falls with nodes by a hop", with(func(m *model) {
			m.change = slowAt(4, many, nil)
			m.hops = func(h *Hop) {
				if h.From == 2 {
					h.GBs, h.Most = 2.5, 2.6
				}
			}
		}), FindCurve, true, []string{"falls with nodes", "the hop from node 2 to node 3", "2.50 GB/s", "10.0 GB/s"}},
		{"a hop that was slow in one round only", with(func(m *model) {
			m.hops = func(h *Hop) {
				if h.From == 2 {
					h.GBs, h.Most = 2.5, 9.9
				}
			}
		}), FindShared, false, []string{"a hop alone moves"}},
		{"falls with nodes by shares", with(func(m *model) {
			m.change = slowAt(2, func(x *Measurement) bool { return many(x) && direct(x) }, nil)
			m.rails = func(r *Rail) {
				if r.Node == 3 && r.Device == "efa_1" {
					r.Bytes = 1 << 28
				}
			}
		}), FindCurve, true, []string{"placement: node 3's rails", "efa_1 256 MiB (0000:20:00.0, NUMA node 0)"}},
		{"falls with nodes by what they share", with(func(m *model) { m.change = slowAt(2, many, nil) }),
			FindCurve, true, []string{"what the hops share: one alone moves 10.0 GB/s; TCP falls as well"}},
		{"inside one process", with(func(m *model) { m.change, m.embedded = slowAt(2, many, nil), true }),
			FindCurve, true, []string{"4 nodes and their software NICs share 2 CPUs"}},
		{"small sizes among many nodes", with(func(m *model) {
			m.change = slowAt(2, func(x *Measurement) bool { return many(x) && x.Bytes < 1<<20 }, nil)
		}), FindCurve, false, []string{"below 80% of 2 nodes' to 16 KiB"}},
		{"a fall that nothing tells", with(func(m *model) {
			m.change = slowAt(2, func(x *Measurement) bool { return many(x) && direct(x) }, nil)
			m.hops = func(h *Hop) { h.GBs, h.Most = 5, 5 }
		}), FindCurve, true, []string{"nothing that was measured tells"}},
		{"the detour is faster", with(func(m *model) { m.change = slowAt(3, direct, nil) }), FindPath, true, []string{"the direct path is the slower one here"}},
		{"the detour is faster, for little", with(func(m *model) { m.latency = 1; m.change = slowAt(3, direct, nil) }),
			FindPath, false, []string{"through-host", "bound by latency: take a larger size"}},
		{"the detour is as fast", with(func(m *model) {
			m.change = slowAt(1/1.5, func(x *Measurement) bool { return x.Path == Staged }, nil)
		}), FindPath, false, []string{"through-host", "as long as direct", "not the path"}},
		{"another NUMA node", with(func(m *model) {
			m.rails = func(r *Rail) {
				if r.Node == 1 && r.Device == "efa_1" {
					r.NUMA = &one
				}
			}
		}), FindPlacement, true, []string{"node 1's efa_1 (0000:20:00.0) is on NUMA node 1 and the memory on 0"}},
		{"rails that are not near", with(func(m *model) {
			m.rails = func(r *Rail) {
				if r.Device == "efa_1" {
					r.Near, r.Bytes = false, 0
				}
			}
		}), FindPlacement, false, []string{"4 of 8 rails are not near"}},
		{"nothing is known of places", with(func(m *model) { m.rails = func(r *Rail) { r.NUMA = nil } }), FindPlacement, false, []string{"not known"}},
		{"a rail that was lost", with(func(m *model) { m.rails = func(r *Rail) { r.Losses = 3 } }), FindPlacement, true, []string{"lost its connections 3 times"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := test.m.report()
			for _, f := range r.Verdict {
				ok := f.About == test.about && f.Falls == test.falls
				for _, text := range test.text {
					ok = ok && strings.Contains(f.Text, text)
				}
				if ok {
					return
				}
			}
			t.Errorf("no finding of %s, falls %v, has %q:", test.about, test.falls, test.text)
			for _, f := range r.Verdict {
				t.Logf("%+v", f)
			}
		})
	}
}

// TestVerdictOfLittle: one size, two nodes, one operation.
func TestVerdictOfLittle(t *testing.T) {
	r := plain().report()
	r.Conditions.Nodes, r.Conditions.Bytes, r.Conditions.Operations = []int{2}, []uint64{1 << 20}, []string{AllGather}
	r.Hops, r.Rails = nil, nil
	if got := verdict(r); len(got) == 0 {
		t.Error("no verdict")
	}
}
