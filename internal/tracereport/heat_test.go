package tracereport

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/golden"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// histogramOfAll counts durations as the kernel's programs do.
func histogramOfAll(all ...time.Duration) ebpfprobes.Histogram {
	h := ebpfprobes.Histogram{Slots: make([]uint64, 608)}
	for _, d := range all {
		slot := 0
		for _, high := ebpfprobes.SlotRange(slot); d >= high; _, high = ebpfprobes.SlotRange(slot) {
			slot++
		}
		h.Slots[slot]++
		h.Count++
		h.Sum += d
		h.Longest = max(h.Longest, d)
	}
	return h
}

// twoMinutes is a made-up run: registrations of about 40 us that become slower, some
// of them far, and deregistrations; nothing was traced for a while.
func twoMinutes() *Heat {
	random := rand.New(rand.NewPCG(1, 2))
	h := NewHeat("calls", noon, time.Second)
	register, deregister := histogramOfAll(), histogramOfAll()
	for s := 1; s <= 120; s++ {
		if s > 60 && s <= 70 {
			h.Add(noon.Add(time.Duration(s)*time.Second), false, nil)
			continue
		}
		for range 200 {
			took := time.Duration((30 + 0.5*float64(s)) * (1 + random.ExpFloat64()/3) * 1000)
			if random.IntN(50) == 0 {
				took *= 30
			}
			one := histogramOfAll(took)
			register.Add(&one)
			two := histogramOfAll(time.Duration(9000 * (1 + random.ExpFloat64()/4)))
			deregister.Add(&two)
		}
		h.Add(noon.Add(time.Duration(s)*time.Second), true, []Panel{
			{"register, host", register}, {"deregister, host", deregister}})
	}
	return h
}

func TestHeatPicture(t *testing.T) {
	var b bytes.Buffer
	if err := twoMinutes().WriteSVG(&b, "registrations of <rxe0> & others", noon.Add(2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "heat.svg", b.Bytes())
	d := xml.NewDecoder(&b)
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			for _, a := range e.Attr {
				if strings.Contains(a.Value, "url(") || strings.Contains(a.Name.Local, "href") {
					t.Errorf("%s refers to %s", e.Name.Local, a.Value)
				}
			}
		}
	}
}

func TestHeatOfNothing(t *testing.T) {
	var b bytes.Buffer
	if err := NewHeat("calls", noon, time.Second).WriteSVG(&b, "a\x1b[31m\n</title><script>", noon); err != nil {
		t.Fatal(err)
	}
	s := b.String()
	if !strings.Contains(s, "no calls were seen") || strings.Contains(s, "<script") || strings.ContainsRune(s, 0x1b) {
		t.Error(s)
	}
}

// TestHeatKeepsEveryCall folds columns many times over: no call may be lost or counted
// twice, and the map stays as small.
func TestHeatKeepsEveryCall(t *testing.T) {
	h := NewHeat("calls", noon, 100*time.Millisecond)
	all := histogramOfAll()
	for i := 1; i <= 5000; i++ {
		one := histogramOfAll(time.Duration(i) * time.Microsecond)
		all.Add(&one)
		h.Add(noon.Add(time.Duration(i)*100*time.Millisecond), i%10 != 0, []Panel{{"p", all}})
	}
	var sum uint64
	for _, bands := range h.panels["p"].columns {
		for _, n := range bands {
			sum += n
		}
	}
	if sum != 5000 || len(h.panels["p"].columns) > heatColumns || len(h.gaps) > heatColumns {
		t.Errorf("%d calls in %d columns, %d gaps", sum, len(h.panels["p"].columns), len(h.gaps))
	}
	if h.step != 3200*time.Millisecond {
		t.Errorf("a column is %v", h.step)
	}
}

func TestBands(t *testing.T) {
	for _, c := range []struct {
		ns   uint64
		band int
		low  time.Duration
	}{{0, 0, 0}, {1, 0, 0}, {2, 2, 2}, {3, 3, 3}, {4, 4, 4}, {5, 4, 4}, {6, 5, 6}, {1023, 19, 768}, {1024, 20, 1024}, {1536, 21, 1536}} {
		if b := bandOf(c.ns); b != c.band || bandLow(b) != c.low {
			t.Errorf("%d ns: band %d from %v, want %d from %v", c.ns, b, bandLow(b), c.band, c.low)
		}
	}
	// A slot of the kernel's histograms never spans two bands.
	for slot := range 600 {
		low, high := ebpfprobes.SlotRange(slot)
		if low >= 2 && bandOf(uint64(low)) != bandOf(uint64(high)-1) {
			t.Errorf("slot %d, from %v to %v, is in bands %d and %d", slot, low, high, bandOf(uint64(low)), bandOf(uint64(high)-1))
		}
	}
}
