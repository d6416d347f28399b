package weights_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/peerdirect/peerdirect/transfer/patterns/weights"
)

// model is tensors sharded in ways that do not match.
func model(senders, receivers int) []weights.Tensor {
	s, r := ranks(senders), ranks(receivers)
	half := weights.Split{Dim: 1, Holders: [][]int{s[:senders/2], s[senders/2:]}}
	return []weights.Tensor{
		{Name: "embedding", Shape: []int{101, 16}, Element: 2, From: weights.Sharded(0, s...), To: weights.Sharded(1, r...)},
		{Name: "norm", Shape: []int{17}, Element: 4, From: weights.Replicated(s...), To: weights.Replicated(r...)},
		{Name: "experts", Shape: []int{5, 6, 7}, Element: 1, From: half, To: weights.Sharded(0, r...)},
		{Name: "output", Shape: []int{64, 33}, Element: 2, From: weights.Sharded(1, s...), To: weights.Sharded(1, r...)},
		{Name: "few rows", Shape: []int{1, 40}, Element: 2, From: weights.Sharded(0, s...), To: weights.Replicated(r[:1]...)},
	}
}

func ranks(n int) []int {
	r := make([]int, n)
	for i := range r {
		r[i] = i
	}
	return r
}

// part is what a rank holds of a tensor: offsets in the whole, by offset in the part.
// It is reckoned element by element.
func part(t weights.Tensor, s weights.Split, rank int) (elements []int) {
	for i, holders := range s.Holders {
		if !slices.Contains(holders, rank) {
			continue
		}
		all := 1
		for _, d := range t.Shape {
			all *= d
		}
		for e := range all {
			inner := 1
			for _, d := range t.Shape[s.Dim+1:] {
				inner *= d
			}
			d := t.Shape[s.Dim]
			if at := e / inner % d; at >= i*d/len(s.Holders) && at < (i+1)*d/len(s.Holders) {
				elements = append(elements, e)
			}
		}
	}
	return elements
}

// TestPlan: every byte that a receiver needs comes once, from where it lies to where
// it belongs; whatever the shapes and shardings.
func TestPlan(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		senders, receivers := 2+r.IntN(5), 1+r.IntN(5)
		tensors := model(senders, receivers)
		if r.IntN(2) == 0 {
			tensors = nil
		}
		for range 3 {
			shape := make([]int, 1+r.IntN(4))
			for i := range shape {
				shape[i] = 1 + r.IntN(6)
			}
			split := func(n int) weights.Split {
				s := weights.Split{Dim: r.IntN(len(shape)), Holders: make([][]int, 1+r.IntN(n))}
				for i, rank := range r.Perm(n) {
					if at := r.IntN(len(s.Holders)); i < len(s.Holders) {
						s.Holders[i] = append(s.Holders[i], rank)
					} else {
						s.Holders[at] = append(s.Holders[at], rank)
					}
				}
				return s
			}
			tensors = append(tensors, weights.Tensor{Name: "random", Shape: shape, Element: 1 + r.IntN(3), From: split(senders), To: split(receivers)})
		}
		plan, err := weights.Plan(tensors, senders, receivers, 1+r.IntN(200))
		if err != nil {
			t.Fatal(err)
		}
		again, err := weights.Plan(tensors, senders, receivers, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		covers(t, plan)
		covers(t, again)
	}
}

// covers moves the bytes of a plan in plain memory.
func covers(t *testing.T, plan *weights.Schedule) {
	t.Helper()
	type place struct{ tensor, byte int }
	in, out := make([]map[int]place, plan.Senders), make([]map[int]place, plan.Receivers)
	for side, memories := range [][]map[int]place{in, out} {
		for rank := range memories {
			memories[rank] = make(map[int]place)
			for i, tensor := range plan.Tensors {
				split, placed := tensor.From, plan.SenderPlace
				if side == 1 {
					split, placed = tensor.To, plan.ReceiverPlace
				}
				at := placed(i, rank)
				for k, e := range part(tensor, split, rank) {
					for b := range tensor.Element {
						memories[rank][at+k*tensor.Element+b] = place{i, e*tensor.Element + b}
					}
				}
			}
		}
	}
	for sender := range plan.Senders {
		count := make([]int, plan.Receivers)
		for _, p := range plan.Sent(sender) {
			count[p.To]++
			bytes := uint64(0)
			for _, s := range p.Segments {
				bytes += s.Length
				for k := range int(s.Length) {
					from, ok := in[sender][int(s.Local)+k]
					to, needed := out[p.To][int(s.Remote)+k]
					if !ok || !needed || from != to || from.tensor != p.Tensor {
						t.Fatalf("sender %d sends byte %v, to where %v belongs at receiver %d (or it came before)", sender, from, to, p.To)
					}
					delete(out[p.To], int(s.Remote)+k)
				}
			}
			if bytes != p.Bytes || p.From != sender {
				t.Fatalf("%+v has %d bytes", p, bytes)
			}
		}
		for r, n := range count {
			if plan.Pieces(r, sender) != n {
				t.Fatalf("receiver %d expects %d pieces of sender %d, which sends %d", r, plan.Pieces(r, sender), sender, n)
			}
		}
	}
	for r, left := range out {
		if len(left) > 0 {
			t.Fatalf("%d bytes do not come to receiver %d", len(left), r)
		}
	}
}

// TestBalance: what is sent and received, and who writes to whom at a time.
func TestBalance(t *testing.T) {
	const senders, receivers, chunk = 8, 4, 4096
	half := weights.Split{Dim: 0, Holders: [][]int{{0, 1, 2, 3}, {4, 5, 6, 7}}}
	for _, test := range []struct {
		name    string
		tensors []weights.Tensor
		within  int // bytes
	}{
		{"all could send all", []weights.Tensor{
			{Name: "a", Shape: []int{1000, 300}, Element: 2, From: weights.Replicated(ranks(senders)...), To: weights.Sharded(0, ranks(receivers)...)},
			{Name: "b", Shape: []int{77}, Element: 4, From: weights.Replicated(ranks(senders)...), To: weights.Replicated(ranks(receivers)...)},
		}, chunk},
		{"either half", []weights.Tensor{
			{Name: "a", Shape: []int{512, 512}, Element: 2, From: half, To: weights.Replicated(ranks(receivers)...)},
		}, chunk},
		{"one could send each", []weights.Tensor{
			{Name: "a", Shape: []int{512, 512}, Element: 2, From: weights.Sharded(0, ranks(senders)...), To: weights.Sharded(1, ranks(receivers)...)},
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan, err := weights.Plan(test.tensors, senders, receivers, chunk)
			if err != nil {
				t.Fatal(err)
			}
			again, err := weights.Plan(test.tensors, senders, receivers, chunk)
			if err != nil || !reflect.DeepEqual(plan, again) {
				t.Fatalf("two plans of the same differ (%v)", err)
			}
			sent, received := make([]int, senders), make([]int, receivers)
			steps := 0
			for s := range senders {
				for _, p := range plan.Sent(s) {
					sent[s] += int(p.Bytes)
					received[p.To] += int(p.Bytes)
				}
				steps = max(steps, len(plan.Sent(s)))
			}
			t.Logf("sent %v, received %v, in %d steps", sent, received, steps)
			if spread := slices.Max(sent) - slices.Min(sent); spread > test.within {
				t.Errorf("senders differ by %d bytes, more than %d", spread, test.within)
			}
			if spread := slices.Max(received) - slices.Min(received); spread > 0 {
				t.Errorf("receivers of the same share differ by %d bytes", spread)
			}
			// The first half of the steps, in which all have pieces for all.
			for step := range steps / 2 {
				at := make([]int, receivers)
				for s := range senders {
					at[plan.Sent(s)[step].To]++
				}
				if most := slices.Max(at); most > senders/receivers+1 {
					t.Fatalf("step %d: receivers are written to by %v senders", step, at)
				}
			}
		})
	}
}

// TestPlanRefused: what makes no sense.
func TestPlanRefused(t *testing.T) {
	good := weights.Tensor{Name: "a", Shape: []int{4, 4}, Element: 2, From: weights.Sharded(0, 0, 1), To: weights.Replicated(0)}
	for name, change := range map[string]func(*weights.Tensor){
		"no shape":          func(t *weights.Tensor) { t.Shape = nil },
		"no elements":       func(t *weights.Tensor) { t.Shape = []int{4, 0} },
		"no element":        func(t *weights.Tensor) { t.Element = 0 },
		"too many":          func(t *weights.Tensor) { t.Shape = []int{1 << 30, 1 << 30} },
		"no such dimension": func(t *weights.Tensor) { t.From.Dim = 2 },
		"no parts":          func(t *weights.Tensor) { t.To.Holders = nil },
		"nobody":            func(t *weights.Tensor) { t.To.Holders = [][]int{{0}, {}} },
		"no such rank":      func(t *weights.Tensor) { t.From = weights.Sharded(0, 0, 2) },
		"a rank twice":      func(t *weights.Tensor) { t.From = weights.Sharded(0, 0, 0) },
	} {
		bad := good
		change(&bad)
		if _, err := weights.Plan([]weights.Tensor{good, bad}, 2, 1, 100); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := weights.Plan([]weights.Tensor{good}, 2, 1, 0); err == nil {
		t.Error("chunks of no bytes were taken")
	}
}
