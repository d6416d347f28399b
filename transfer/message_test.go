package transfer

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"
)

func someMessages() []message {
	return []message{
		{kind: kindPropose, layout: Layout{PageSize: 65536, Pages: 512, Stride: 2, Seed: 1<<63 + 5}, iterations: 3, receives: 128},
		{kind: kindAccept, region: Descriptor{Addr: 0x7f0000000000, Length: 64 << 20, Keys: []uint32{0x1234}}, receives: 16},
		{kind: kindAccept, region: Descriptor{Addr: 1, Length: 1, Keys: make([]uint32, MaxNICs)}, receives: 16},
		{kind: kindBegin, epoch: 17},
		{kind: kindSums, epoch: 2, first: 1018, sums: bytes.Repeat([]byte{1, 2, 3, 4}, sumsPerMessage)},
		{kind: kindCredit, credit: 64},
		{kind: kindArrived, epoch: 3},
		{kind: kindVerdict, epoch: 1, bad: 1000, listed: bytes.Repeat([]byte{0, 0, 0, 9}, maxListed), digest: [32]byte{1, 2}},
		{kind: kindBye},
	}
}

func TestMessagesSurviveTheWire(t *testing.T) {
	for _, m := range someMessages() {
		b := m.encode(nil)
		if len(b) > MessageSize || len(b) < MinMessage {
			t.Errorf("%v has %d bytes", m.kind, len(b))
		}
		var got message
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
			if err := got.decode(b[:cut]); !errors.Is(err, errMessage) {
				t.Errorf("%v cut to %d bytes: %v", m.kind, cut, err)
			}
		}
	}
}

func FuzzMessage(f *testing.F) {
	for _, m := range someMessages() {
		f.Add(m.encode(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m message
		if err := m.decode(b); err != nil {
			if !errors.Is(err, errMessage) {
				t.Fatalf("%v", err)
			}
			return
		}
		if again := m.encode(nil); !bytes.Equal(again, b) {
			t.Fatalf("%x is read as %+v and written as %x", b, m, again)
		}
	})
}

func TestArrivalsAreKeptUntilTheyAreDue(t *testing.T) {
	var a arrivals
	for _, imm := range []uint32{notice(5, 10), notice(6, 3), notice(5, 90), notice(6, 1)} {
		if err := a.add(imm, 5, 100); err != nil {
			t.Fatal(err)
		}
	}
	if a.count(5) != 100 || a.count(6) != 4 {
		t.Errorf("counted %d and %d", a.count(5), a.count(6))
	}
	a.forget(5)
	if a.count(6) != 4 {
		t.Error("the end of one epoch took the next one's pages")
	}
	for what, imm := range map[string]uint32{"an old epoch": notice(4, 1), "a far epoch": notice(8, 1), "no pages": notice(6, 0), "too many": notice(6, 97)} {
		if err := a.add(imm, 6, 100); err == nil {
			t.Errorf("a notice of %s was taken", what)
		}
	}
	// Epochs are counted modulo 256.
	a = arrivals{}
	if err := a.add(notice(256, 7), 255, 100); err != nil || a.count(256) != 7 {
		t.Errorf("epoch 256: %v, %d pages", err, a.count(256))
	}
}

func TestChecksumsKnowPagesApart(t *testing.T) {
	l := Layout{PageSize: 64, Pages: 300, Stride: 2, Seed: 3}
	mem := make([]byte, l.Span())
	seen := make(map[uint32]bool)
	for epoch := range uint32(3) {
		fill(mem, l, epoch)
		sums := newPageSums(l.Pages)
		sums.compute(mem, l, l.SourceSlot)
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
	check.compute([]byte("123456789"), Layout{PageSize: 9, Pages: 1, Stride: 1}, func(int) int { return 0 })
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
