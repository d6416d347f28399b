package pci

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// Of random machines: every rail is a nearest one, nobody goes without, no NIC is
// shared while it could be avoided, and the order of reading does not matter.
func TestPairOfRandomMachines(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 5))
		topo := randomMachine(r)
		p, err := topo.Pair(PairOptions{})
		if err != nil {
			t.Fatal(err)
		}
		nics := topo.Of(RDMANIC)
		near := map[*Device][]*Device{}
		alone := map[*Device]int{}
		for _, pair := range p.Pairs {
			var best Class
			near[pair.Accelerator], best = nearest(topo, pair.Accelerator, nics)
			if len(pair.Rails) == 0 || pair.Class != best {
				t.Fatalf("seed %d: %v has %d rails, %v, nearest is %v", seed, pair.Accelerator.Address, len(pair.Rails), pair.Class, best)
			}
			for _, n := range pair.Rails {
				alone[n]++
				if !slices.Contains(near[pair.Accelerator], n) {
					t.Fatalf("seed %d: %v is no nearest of %v", seed, n.Address, pair.Accelerator.Address)
				}
			}
		}
		fewest := len(nics)
		for _, pair := range p.Pairs {
			own := 0
			for _, n := range pair.Rails {
				if alone[n] == 1 {
					own++
				}
			}
			fewest = min(fewest, own)
		}
		if possible := mostForAll(p.Pairs, near, fewest+1); possible {
			t.Fatalf("seed %d: each could have had %d of its own, one has %d\n%s", seed, fewest+1, fewest, spelled(topo, p))
		}
		want := spelled(topo, p)
		r.Shuffle(len(topo.Devices), func(i, j int) { topo.Devices[i], topo.Devices[j] = topo.Devices[j], topo.Devices[i] })
		Assemble(topo)
		if again, _ := topo.Pair(PairOptions{}); spelled(topo, again) != want {
			t.Fatalf("seed %d: the order of reading matters", seed)
		}
	}
}

func randomMachine(r *rand.Rand) *Topology {
	topo := &Topology{}
	for i := range 2 {
		topo.Nodes = append(topo.Nodes, &Node{Number: i, Present: true, CPUs: CPUs{i}})
	}
	bus := uint8(0)
	add := func(root *Root, parent *Device, kind Kind) *Device {
		bus++
		d := &Device{Address: Address{Bus: bus}, Root: root, Parent: parent, Kind: kind}
		topo.Devices = append(topo.Devices, d)
		return d
	}
	for i := range 2 + r.IntN(3) {
		root := &Root{Name: fmt.Sprintf("pci0000:%02x", i), Bus: uint8(i)}
		if n := r.IntN(5); n < 4 {
			root.Node = topo.Nodes[n%2]
		}
		topo.Roots = append(topo.Roots, root)
		bridges := []*Device{nil}
		for range r.IntN(8) {
			switch above := bridges[r.IntN(len(bridges))]; r.IntN(3) {
			case 0:
				bridges = append(bridges, add(root, above, Bridge))
			case 1:
				add(root, above, Accelerator)
			default:
				add(root, above, RDMANIC)
			}
		}
	}
	root := topo.Roots[0]
	add(root, nil, Accelerator)
	add(root, nil, RDMANIC)
	Assemble(topo)
	return topo
}

// nearest finds by class alone, the unknown last.
func nearest(topo *Topology, a *Device, among []*Device) (found []*Device, best Class) {
	far := func(c Class) Class {
		if c == ClassUnknown {
			return SYS + 1
		}
		return c
	}
	best = SYS + 2
	for _, n := range among {
		c := far(topo.Distance(a, n).Class)
		if c < best {
			best, found = c, nil
		}
		if c == best {
			found = append(found, n)
		}
	}
	if best > SYS {
		best = ClassUnknown
	}
	return found, best
}

// mostForAll tells whether each accelerator could have that many of its nearest
// for itself: as many copies of it as that are matched.
func mostForAll(pairs []Pair, near map[*Device][]*Device, each int) bool {
	owner := map[*Device]int{}
	var try func(i int, seen map[*Device]bool) bool
	try = func(i int, seen map[*Device]bool) bool {
		for _, n := range near[pairs[i/each].Accelerator] {
			if seen[n] {
				continue
			}
			seen[n] = true
			if j, taken := owner[n]; !taken || try(j, seen) {
				owner[n] = i
				return true
			}
		}
		return false
	}
	for i := range len(pairs) * each {
		if !try(i, map[*Device]bool{}) {
			return false
		}
	}
	return true
}

func TestPairOfThousands(t *testing.T) {
	topo := &Topology{Roots: []*Root{{Name: "pci0000:00"}}}
	for i := range 4000 {
		d := &Device{Address: Address{Domain: uint32(i / 256), Bus: uint8(i)}, Root: topo.Roots[0], Kind: Accelerator}
		if i%2 == 1 {
			d.Kind = RDMANIC
		}
		topo.Devices = append(topo.Devices, d)
	}
	Assemble(topo)
	p, err := topo.Pair(PairOptions{})
	if err != nil || len(p.Pairs) != 2000 || len(p.Unpaired) != 0 {
		t.Fatalf("%d pairs, %d free, %v", len(p.Pairs), len(p.Unpaired), err)
	}
	for _, pair := range p.Pairs {
		if len(pair.Rails) != 1 {
			t.Fatalf("%v has %d rails", pair.Accelerator.Address, len(pair.Rails))
		}
	}
	topo.Findings()
}
