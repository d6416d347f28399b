package tracereport

import (
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

func TestFramesAreEscaped(t *testing.T) {
	var b strings.Builder
	if err := WriteEvent(&b, new(ebpfprobes.Registration), []string{"main (a\x1b[31m\nb)"}); err != nil {
		t.Fatal(err)
	}
	if s := b.String(); strings.Count(s, "\n") != 2 || strings.Contains(s, "\x1b") || !strings.Contains(s, `main (a\x1b[31m\nb)`) {
		t.Errorf("%q", s)
	}
}

func TestNoRateOfEnded(t *testing.T) {
	r := Registrations{Rows: []ebpfprobes.RegistrationRow{{}, {RegistrationKey: ebpfprobes.RegistrationKey{PID: 7}}}, Rates: []float64{3, 3}}
	if r.rate(0) != nil || rateText(r.rate(0)) != "-" || rateText(r.rate(1)) != "3.00" {
		t.Error(rateText(r.rate(0)), rateText(r.rate(1)))
	}
}
