package railtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
)

// flood keeps a rail's queues full of writes of one value each.
type flood struct {
	*field
	from, to int
	peer     transfer.Peer
	length   uint32
	posted   uint64
	back     map[uint64]transfer.Completion
}

func (f *flood) fill() {
	f.t.Helper()
	for {
		at := f.posted * uint64(f.length) % uint64(len(f.mem[f.to]))
		if f.post(f.from, f.op(transfer.OpWrite, f.from, f.peer, f.to, 0, at, f.length, f.posted)) == 0 {
			return
		}
		f.posted++
		if f.posted-uint64(len(f.back)) >= uint64(f.rail[f.from].Depth()) {
			return
		}
	}
}

// take takes what has come back; false if something else came.
func (f *flood) take() {
	f.t.Helper()
	f.poll(f.from)
	for _, c := range f.queue[f.from] {
		if c.Kind == transfer.Lost && c.Peer == f.peer {
			continue // of no operation; iWARP tells by itself
		}
		if _, twice := f.back[c.ID]; twice || c.Peer != f.peer || c.Kind != transfer.Done && c.Kind != transfer.Failed {
			f.t.Fatalf("%+v", c)
		}
		f.back[c.ID] = c
	}
	f.queue[f.from] = nil
}

func (f *flood) drain() (done int) {
	f.t.Helper()
	for end := time.Now().Add(patience); uint64(len(f.back)) < f.posted; time.Sleep(50 * time.Microsecond) {
		if f.take(); time.Now().After(end) {
			f.t.Fatalf("%d of %d operations have come back", len(f.back), f.posted)
		}
	}
	for _, c := range f.back {
		if c.Kind == transfer.Done {
			done++
		}
	}
	return done
}

// nothingLands floods a rail with writes and has it disconnect in the middle:
// its memory must not change from then on.
func nothingLands(t *testing.T, open Rails) {
	const size, rounds = 1 << 20, 12
	f := newField(t, open, 2, 1, size)
	cut := 0
	for round := range rounds {
		pa, pb := f.connect(0, 1)
		clear(f.mem[1])
		for i := range f.mem[0] {
			f.mem[0][i] = byte(round + 1)
		}
		x := &flood{field: f, to: 1, peer: pa, length: []uint32{65536, 4096, 100}[round%3], back: map[uint64]transfer.Completion{}}
		for x.fill(); len(x.back) < round; x.fill() {
			x.take()
		}
		f.post(0, f.op(transfer.OpNotify, 0, pa, 1, 0, 0, 0, 1<<40)) // if there is room
		fenced := f.disconnect(1, pb)
		then := bytes.Clone(f.mem[1])
		for range 20 {
			x.fill()
			x.take()
			time.Sleep(time.Millisecond)
		}
		if fenced && !bytes.Equal(f.mem[1], then) {
			t.Fatalf("round %d: memory changed after the writer was disconnected", round)
		}
		f.before(1, pb)
		f.quiet(1)
		if round+1 < rounds { // the last waits until the writer notices by itself
			f.disconnect(0, pa)
		}
		delete(x.back, 1<<40)
		done := 0
		for end := time.Now().Add(patience); ; time.Sleep(50 * time.Microsecond) {
			x.take()
			if delete(x.back, 1<<40); uint64(len(x.back)) == x.posted {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("round %d: %d of %d operations have come back", round, len(x.back), x.posted)
			}
		}
		for _, c := range x.back {
			if c.Kind == transfer.Done {
				done++
			}
		}
		if uint64(done) < x.posted {
			cut++
		}
		if fenced && !bytes.Equal(f.mem[1], then) {
			t.Fatalf("round %d: memory changed at last", round)
		}
		if round+1 == rounds {
			f.disconnect(0, pa)
		}
	}
	t.Logf("%d of %d floods were cut off in the middle", cut, rounds)
}

// leavingComesBack has the writer disconnect itself: every operation comes back
// once, and what is told as Done was carried out.
func leavingComesBack(t *testing.T, open Rails) {
	const size = 1 << 20
	f := newField(t, open, 2, 1, size)
	for round := range 6 {
		pa, pb := f.connect(0, 1)
		clear(f.mem[1])
		for i := range f.mem[0] {
			f.mem[0][i] = byte(round + 1)
		}
		x := &flood{field: f, to: 1, peer: pa, length: 4096, back: map[uint64]transfer.Completion{}}
		for x.fill(); len(x.back) < 2*round; x.fill() {
			x.take()
		}
		f.disconnect(0, pa)
		done := x.drain()
		f.disconnect(1, pb) // so that nothing changes while it is compared
		for id, c := range x.back {
			at := int(id) * 4096 % size
			if c.Kind == transfer.Done && !bytes.Equal(f.mem[1][at:at+4096], f.mem[0][:4096]) {
				t.Fatalf("round %d: write %d is told as done, and its bytes are not there", round, id)
			}
			if c.Kind == transfer.Failed && !errors.Is(c.Err, transfer.ErrFlushed) {
				t.Errorf("round %d: %+v", round, c)
			}
		}
		t.Logf("%d of %d writes had been carried out", done, x.posted)
		f.quiet(0)
	}
}

// numbersAgain connects and disconnects two rails for one peer over and over,
// with operations in flight: nothing of a former peer may show at a later one.
func numbersAgain(t *testing.T, open Rails) {
	const size = 64 << 10
	f := newField(t, open, 2, 1, size)
	var objects map[string]int
	for round := range 24 {
		pa, pb := f.connect(0, 1)
		switch round {
		case 2: // what is made once is made
			objects = live()
		case 23:
			if now := live(); !maps.Equal(now, objects) {
				t.Errorf("objects grew from %v to %v", objects, now)
			}
		}
		imm := uint32(round) | 0xabc0000
		binary.LittleEndian.PutUint32(f.mem[0], imm)
		f.post(0, f.op(transfer.OpWrite, 0, pa, 1, 0, 64, 4, uint64(round)<<8))
		if c := f.expect(0, transfer.Done, pa); c.ID != uint64(round)<<8 {
			t.Fatalf("round %d gave %+v", round, c)
		}
		notify := f.op(transfer.OpNotify, 0, pa, 1, 0, 0, 0, uint64(round)<<8|1)
		notify.Imm = imm
		f.post(0, notify)
		if c := f.expect(1, transfer.Notice, pb); c.Imm != imm || binary.LittleEndian.Uint32(f.mem[1][64:]) != imm {
			t.Fatalf("round %d gave notice %#x", round, c.Imm)
		}
		// Left in flight: a notice and a message that the other side does not
		// poll, and writes both ways.
		late := []transfer.Op{
			notify,
			{Kind: transfer.OpSend, Peer: pa, Local: f.region[0].At(0, 64), ID: uint64(round)<<8 | 2},
			f.op(transfer.OpWrite, 0, pa, 1, 0, 4096, 8192, uint64(round)<<8|3),
		}
		late[0].ID = uint64(round)<<8 | 5
		back := 1 + f.post(0, late...)
		backB := f.post(1, f.op(transfer.OpWrite, 1, pb, 0, 0, 32<<10, 8192, uint64(round)<<8|4))
		if round%2 == 1 {
			time.Sleep(2 * time.Millisecond) // they have come
		}
		f.disconnect(1, pb)
		f.disconnect(0, pa)
		// What came before the end is given, and a notice that the sender knows
		// to have come, was.
		carried := false
		for range back {
			c := f.next(0)
			if c.Kind != transfer.Done && c.Kind != transfer.Failed || c.ID>>8 != uint64(round) {
				t.Fatalf("round %d: rail 0 gave %+v", round, c)
			}
			carried = carried || c.ID&0xff == 5 && c.Kind == transfer.Done
		}
		for n := 0; n < backB || carried; n++ {
			c := f.next(1)
			switch {
			case c.Kind == transfer.Notice && c.Peer == pb && c.Imm == imm:
				carried = false
				n--
			case c.Kind == transfer.Message && c.Peer == pb:
				n--
			case c.Kind != transfer.Done && c.Kind != transfer.Failed || c.ID>>8 != uint64(round):
				t.Fatalf("round %d: rail 1 gave %+v", round, c)
			}
		}
		f.before(1, pb)
	}
	f.quiet(0)
	f.quiet(1)
}

// othersGoOn has three rails, of which one leaves while two go on.
func othersGoOn(t *testing.T, open Rails) {
	const size = 256 << 10
	f := newField(t, open, 3, 2, size+4096) // the third's writes go to the end
	p01, p10 := f.connect(0, 1)
	p02, p20 := f.connect(0, 2)
	p12, p21 := f.connect(1, 2)
	random(f.mem[1])
	clear(f.mem[0])
	clear(f.mem[2])
	// The second writes to the first without end, and the third leaves both.
	const piece = 2048
	done, posted := 0, 0
	step := func() {
		t.Helper()
		if posted-done < f.rail[1].Depth()/2 && posted < size/piece {
			at := uint64(posted * piece)
			posted += f.post(1, f.op(transfer.OpWrite, 1, p10, 0, at, at, piece, uint64(posted)))
		}
		f.poll(1)
		for _, c := range f.queue[1] {
			if c.Peer == p10 && c.Kind == transfer.Done {
				done++
			} else if c.Peer != p12 {
				t.Fatalf("%+v", c)
			}
		}
		f.queue[1] = nil
	}
	for range 8 {
		step()
	}
	f.post(2, f.op(transfer.OpWrite, 2, p20, 0, 0, size, 8, 1), f.op(transfer.OpWrite, 2, p21, 1, 0, size, 8, 2))
	f.post(0, f.op(transfer.OpWrite, 0, p02, 2, 0, 0, 8, 3))
	f.disconnect(0, p02)
	step()
	f.disconnect(2, p20)
	f.disconnect(1, p12)
	f.disconnect(2, p21)
	for end := time.Now().Add(patience); done < size/piece; time.Sleep(20 * time.Microsecond) {
		if step(); time.Now().After(end) {
			t.Fatalf("%d of %d writes are done", done, size/piece)
		}
	}
	for range 2 {
		f.next(2)
	}
	if c := f.next(0); c.Peer != p02 || c.ID != 3 {
		t.Errorf("%+v", c)
	}
	for i := range f.rail {
		f.quiet(i)
	}
	// A notice to everybody, and the third comes back.
	q02, q20 := f.connect(0, 2)
	for _, x := range []struct {
		from, to     int
		peer, sender transfer.Peer
	}{{0, 1, p01, p10}, {1, 0, p10, p01}, {2, 0, q20, q02}, {0, 2, q02, q20}} {
		f.post(x.from, transfer.Op{Kind: transfer.OpNotify, Peer: x.peer, Imm: uint32(x.from), ID: 77})
		if c := f.expect(x.to, transfer.Notice, x.sender); c.Imm != uint32(x.from) {
			t.Errorf("%+v", c)
		}
		f.expect(x.from, transfer.Done, x.peer)
	}
	if !bytes.Equal(f.mem[0][:size], f.mem[1][:size]) {
		t.Error("the bytes differ")
	}
}
