package railtest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

func readsBring(t *testing.T, open Rails) {
	const size = 1 << 20
	f := newField(t, open, 2, 1, size)
	pa, pb := f.connect(0, 1)
	if !f.rail[0].Info().Reads {
		n, err := f.rail[0].Post([]transfer.Op{f.op(transfer.OpRead, 0, pa, 1, 0, 0, 8, 1)})
		if n != 0 || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a rail without reads took %d: %v", n, err)
		}
		t.Skip("the rail has no reads")
	}
	for from, p := range []transfer.Peer{pa, pb} {
		random(f.mem[1-from])
		clear(f.mem[from])
		want := bytes.Clone(f.mem[from])
		var at uint64
		count := 0
		for n, length := range []uint32{1, 7, 64, 255, 4095, 4096, 4097, 9000, 65536, 200_001} {
			there := size - at - uint64(length) - uint64(n)
			copy(want[at:], f.mem[1-from][there:][:length])
			op := f.op(transfer.OpRead, from, p, 1-from, at, there, length, uint64(n))
			for count++; f.post(from, op) == 0; count-- {
				f.expect(from, transfer.Done, p)
			}
			at += uint64(length) + 3
		}
		for range count {
			f.expect(from, transfer.Done, p)
		}
		if !bytes.Equal(f.mem[from], want) {
			t.Errorf("rail %d: the bytes differ", from)
		}
	}
	// As many at once as the queues hold, which is more than devices have in
	// flight.
	ops := []transfer.Op{}
	for i := range f.rail[0].Depth() {
		at := uint64(i * 512)
		ops = append(ops, f.op(transfer.OpRead, 0, pa, 1, at%(size/2), size/2+at%(size/2), 512, uint64(i)))
	}
	random(f.mem[1])
	clear(f.mem[0])
	for posted, done := 0, 0; done < len(ops); done++ {
		posted += f.post(0, ops[posted:]...)
		f.expect(0, transfer.Done, pa)
	}
	if n := min(len(ops)*512, size/2); !bytes.Equal(f.mem[0][:n], f.mem[1][size/2:][:n]) {
		t.Error("the bytes of many reads differ")
	}
	for name, bad := range map[string]transfer.Op{
		"local":  f.op(transfer.OpRead, 0, pa, 1, size-5, 0, 64, 2),
		"remote": f.op(transfer.OpRead, 0, pa, 1, 0, size-5, 64, 2),
		"empty":  f.op(transfer.OpRead, 0, pa, 1, 0, 0, 0, 2),
	} {
		if n, err := f.rail[0].Post([]transfer.Op{bad}); n != 0 || err == nil {
			t.Errorf("%s: a read that is wrong was taken", name)
		}
	}
}

func wrongOffers(t *testing.T, open Rails) {
	f := newField(t, open, 2, 2, 4096)
	pa, own := f.offer(0)
	pb, good := f.offer(1)
	refused := func(what string, offer []byte, class error) {
		t.Helper()
		err := f.rail[0].Accept(pa, offer)
		if err == nil || class != nil && !errors.Is(err, class) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for n := range good {
		refused("cut off", good[:n], exchange.ErrProtocol)
	}
	refused("longer", append(bytes.Clone(good), 0), exchange.ErrProtocol)
	refused("huge", bytes.Repeat(good, transfer.MaxOffer), exchange.ErrProtocol)
	refused("its own", own, exchange.ErrProtocol)
	newer := bytes.Clone(good)
	newer[0]++
	refused("of another version", newer, exchange.ErrVersion)
	for kind := range 256 {
		other := bytes.Clone(good)
		if other[1] = byte(kind); other[1] != good[1] {
			refused("of another kind", other, nil)
		}
	}
	// None of this did harm.
	f.acceptBoth(0, pa, own, 1, pb, good)
	if err := f.rail[0].Accept(pa, good); err == nil {
		t.Error("an offer was accepted twice by one peer")
	}
	twice, _ := f.offer(0)
	if err := f.rail[0].Accept(twice, good); !errors.Is(err, exchange.ErrProtocol) {
		t.Errorf("an offer was accepted by two peers: %v", err)
	}
	copy(f.mem[0], "whole")
	f.post(0, f.op(transfer.OpWrite, 0, pa, 1, 0, 0, 5, 1))
	f.expect(0, transfer.Done, pa)
	f.post(0, f.op(transfer.OpNotify, 0, pa, 1, 0, 0, 0, 2))
	f.expect(1, transfer.Notice, pb)
	if string(f.mem[1][:5]) != "whole" {
		t.Error("the bytes differ")
	}
	if err := f.rail[0].Accept(99, good); err == nil {
		t.Error("a number that nobody has accepted an offer")
	}
}
