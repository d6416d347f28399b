package pages

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer/engine"
)

func someLetters() []letter {
	layout := Layout{PageSize: 65536, Pages: 512, Stride: 2, Seed: 1<<63 + 5}
	return []letter{
		{kind: kindPropose, layout: layout, iterations: 3, notices: 32, offset: 1 << 30},
		{kind: kindPropose, layout: layout, iterations: 1, read: true},
		{kind: kindAccept},
		{kind: kindReady, epoch: 17},
		{kind: kindSums, epoch: 2, first: 1018, sums: bytes.Repeat([]byte{1, 2, 3, 4}, sumsPerLetter)},
		{kind: kindArrived, epoch: 3},
		{kind: kindVerdict, epoch: 1, bad: 1000, listed: bytes.Repeat([]byte{0, 0, 0, 9}, maxListed), digest: [32]byte{1, 2}},
		{kind: kindBye},
		{kind: kindAlive},
		{kind: kindFailed, reason: "of no use"},
	}
}

func TestLettersSurviveTheWire(t *testing.T) {
	for _, m := range someLetters() {
		b := m.encode(nil)
		if len(b) > engine.MaxSend {
			t.Errorf("%v has %d bytes", m.kind, len(b))
		}
		var got letter
		if err := got.decode(b); err != nil {
			t.Errorf("%v: %v", m.kind, err)
			continue
		}
		if len(got.sums) == 0 {
			got.sums = nil
		}
		if len(got.listed) == 0 {
			got.listed = nil
		}
		if !reflect.DeepEqual(got, m) {
			t.Errorf("%v came as %+v", m.kind, got)
		}
		for _, cut := range []int{0, 1, 15, len(b) - 1} {
			if err := got.decode(b[:cut]); !errors.Is(err, errLetter) {
				t.Errorf("%v cut to %d bytes: %v", m.kind, cut, err)
			}
		}
	}
	long := letter{kind: kindFailed, reason: strings.Repeat("x", 2*maxReason)}
	var got letter
	if err := got.decode(long.encode(nil)); err != nil || len(got.reason) != maxReason {
		t.Errorf("a long reason: %d bytes, %v", len(got.reason), err)
	}
	if got := printable("a\x1b[2Jb\n"); got != "a?[2Jb?" {
		t.Errorf("printed as %q", got)
	}
}

func FuzzLetter(f *testing.F) {
	for _, m := range someLetters() {
		f.Add(m.encode(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m letter
		if err := m.decode(b); err != nil {
			if !errors.Is(err, errLetter) {
				t.Fatalf("%v", err)
			}
			return
		}
		if again := m.encode(nil); !bytes.Equal(again, b) {
			t.Fatalf("%x is read as %+v and written as %x", b, m, again)
		}
	})
}

func TestChecksumsKnowPagesApart(t *testing.T) {
	l := Layout{PageSize: 64, Pages: 300, Stride: 2, Seed: 3}
	mem := make([]byte, l.Span())
	seen := make(map[uint32]bool)
	for epoch := range uint32(3) {
		fill(t.Context(), mem, l, epoch)
		sums := newPageSums(l.Pages)
		sums.compute(t.Context(), mem, l, l.SourceSlot)
		for i := range l.Pages {
			if seen[sums.at(i)] {
				t.Fatalf("page %d of epoch %d has another's sum", i, epoch)
			}
			seen[sums.at(i)] = true
		}
		other := append(pageSums(nil), sums...)
		other.set(42, 0)
		if got := differences(other, sums); len(got) != 1 || got[0] != 42 {
			t.Errorf("differences %v", got)
		}
		if other.digest() == sums.digest() {
			t.Error("the digest does not tell")
		}
	}
	// The published check value of CRC-32C.
	check := newPageSums(1)
	check.compute(t.Context(), []byte("123456789"), Layout{PageSize: 9, Pages: 1, Stride: 1}, func(int) int { return 0 })
	if check.at(0) != 0xe3069283 {
		t.Errorf("CRC-32C of 123456789 is %#x", check.at(0))
	}
}

func TestARateLogNeverGrows(t *testing.T) {
	r := newRateLog()
	const n = 100_000
	for i := range n {
		r.add(time.Duration(i)*time.Millisecond, 3)
	}
	var sum uint64
	rate := r.rate()
	for _, b := range rate.Bytes {
		sum += b
	}
	if sum != 3*n || len(rate.Bytes) > rateBuckets || len(rate.Bytes) < rateBuckets/2 {
		t.Errorf("%d bytes in %d intervals", sum, len(rate.Bytes))
	}
}
