package bench

import (
	"math/rand/v2"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := Median(c.in); got != c.want {
			t.Errorf("%v: %v, want %v", c.in, got, c.want)
		}
	}
}

func TestIntervalSaysWhatARatioIsWorth(t *testing.T) {
	if got := Interval([]float64{2, 2, 2}, []float64{4, 4, 4}); got != [2]float64{0.5, 0.5} {
		t.Errorf("runs that do not scatter: %v", got)
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	runs := func(n int) (v []float64) {
		for range n {
			v = append(v, 100+20*rnd.NormFloat64())
		}
		return v
	}
	few, many := Interval(runs(5), runs(5)), Interval(runs(500), runs(500))
	for name, v := range map[string][2]float64{"few": few, "many": many} {
		if v[0] >= 1 || v[1] <= 1 {
			t.Errorf("%s equal runs: 1 lies outside %v", name, v)
		}
	}
	if many[1]-many[0] > (few[1]-few[0])/3 {
		t.Errorf("many runs tell %v, few %v", many, few)
	}
	if got := Interval(nil, []float64{1}); got != [2]float64{} {
		t.Errorf("no runs: %v", got)
	}
}
