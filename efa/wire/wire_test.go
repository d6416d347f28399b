package wire

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// filled gives a format's value with every field at a value of its own, not zero.
func filled(f format) codec {
	c := f.make()
	for i, l := range leaves(c) {
		x := 0x8182838485868788 + uint64(i+1)*0x0905030107050301
		if mask, ok := narrow[f.name()+"."+l.path]; ok {
			x = x&mask | mask&-mask // keeps at least the lowest bit
		}
		if l.value.Kind() == reflect.Bool {
			x |= 1
		}
		set(l.value, x)
	}
	return c
}

func TestRoundTrip(t *testing.T) {
	for _, f := range formats {
		t.Run(f.name(), func(t *testing.T) {
			want := filled(f)
			for _, l := range leaves(want) {
				if l.value.IsZero() {
					t.Fatalf("%s is zero, so the test would not see it lost", l.path)
				}
			}
			b := bytes.Repeat([]byte{0xa5}, f.size+8)
			want.Encode(b)
			if !bytes.Equal(b[f.size:], bytes.Repeat([]byte{0xa5}, 8)) {
				t.Errorf("Encode wrote beyond %d bytes: % x", f.size, b[f.size:])
			}
			clean := make([]byte, f.size)
			want.Encode(clean)
			if !bytes.Equal(b[:f.size], clean) {
				t.Errorf("Encode leaves what was there:\n% x\n% x", b[:f.size], clean)
			}
			got := f.make()
			got.Decode(b)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(exported(want)...)); diff != "" {
				t.Errorf("Decode(Encode(x)) (-want +got):\n%s", diff)
			}
			// What was in the value before must not show either.
			dirty := filled(f)
			dirty.Decode(make([]byte, f.size))
			if !reflect.ValueOf(dirty).Elem().IsZero() {
				t.Errorf("Decode of zeros leaves %+v", dirty)
			}
		})
	}
}

// exported names the embedded structs of the adapters for cmp.
func exported(c codec) []any {
	return []any{reflect.ValueOf(c).Elem().Interface(), hotHead{}, hotWord{}}
}

// TestFieldWidths holds what each field keeps on the wire against its Go type, and
// that no two fields share a bit.
func TestFieldWidths(t *testing.T) {
	used := map[string]bool{}
	for _, f := range formats {
		t.Run(f.name(), func(t *testing.T) {
			owner := make(map[int]string)
			for _, l := range leaves(f.make()) {
				key := f.name() + "." + l.path
				n := 0
				for i, x := range ones(f, l.path) {
					for bit := range 8 {
						if x&(1<<bit) == 0 {
							continue
						}
						n++
						if o := owner[8*i+bit]; o != "" {
							t.Errorf("%s and %s share bit %d of byte %d", o, l.path, bit, i)
						}
						owner[8*i+bit] = l.path
					}
				}
				if want := wantBits(key, l.value.Type(), used); n != want {
					t.Errorf("%s has %d bits on the wire, want %d", l.path, n, want)
				}
			}
		})
	}
	for key := range narrow {
		if !used[key] {
			t.Errorf("the table of narrow fields names %s, which is none", key)
		}
	}
}

func wantBits(key string, typ reflect.Type, used map[string]bool) int {
	if mask, ok := narrow[key]; ok {
		used[key] = true
		n := 0
		for ; mask != 0; mask &= mask - 1 {
			n++
		}
		return n
	}
	if typ.Kind() == reflect.Bool {
		return 1
	}
	return 8 * int(typ.Size())
}

func TestShortBuffersPanic(t *testing.T) {
	panics := func(f func()) (did bool) {
		defer func() { did = recover() != nil }()
		f()
		return false
	}
	for _, f := range formats {
		c, b := filled(f), make([]byte, f.size-1)
		if !panics(func() { c.Encode(b) }) {
			t.Errorf("%s: Encode takes %d bytes, one too few", f.name(), len(b))
		}
		if !panics(func() { c.Decode(b) }) {
			t.Errorf("%s: Decode takes %d bytes, one too few", f.name(), len(b))
		}
	}
}

func TestNoAllocation(t *testing.T) {
	for _, f := range formats {
		c, b := filled(f), make([]byte, f.size)
		if n := testing.AllocsPerRun(100, func() { c.Encode(b); c.Decode(b) }); n != 0 {
			t.Errorf("%s: %v allocations for Encode and Decode", f.name(), n)
		}
	}
	entry := make([]byte, SizeAQEntryV2)
	if n := testing.AllocsPerRun(100, func() { SealChecksum(entry) }); n != 0 {
		t.Errorf("SealChecksum: %v allocations", n)
	}
}

// TestHotForms holds the data path's forms against the structs: the same values
// give the same bytes.
func TestHotForms(t *testing.T) {
	send := filled(of[hotSend](64)).(*hotSend)
	rdma := filled(of[hotRDMA](64)).(*hotRDMA)
	meta := func(h hotHead) *TxMeta {
		return &TxMeta{h.ReqID, h.Control, h.DestQP, h.Length, h.Imm, h.AH, h.Hints, h.QKey}
	}
	rx := filled(of[hotRx](16)).(*hotRx)
	tc := filled(of[hotTxCQE](16)).(*hotTxCQE)
	rc := filled(of[hotRxCQE](16)).(*hotRxCQE)
	common := func(w hotWord, reqID, qp uint16) CQECommon {
		return CQECommon{reqID, w.Status, MakeCQEFlags(w.Phase, w.Queue, w.Op, w.HasImm, w.Unsolicited), qp}
	}
	for _, c := range []struct {
		name  string
		hot   codec
		parts []codec
		sizes []int
	}{
		{"send", send, []codec{meta(send.hotHead), &send.Buf0, &send.Buf1}, []int{SizeTxMeta, SizeTxBuf, SizeTxBuf}},
		{"RDMA", rdma, []codec{meta(rdma.hotHead), &RDMAReq{rdma.Remote, rdma.Local}}, []int{SizeTxMeta, SizeRDMAReq}},
		{"receive", rx, []codec{&RxDesc{rx.Addr, rx.ReqID, rx.Length, rx.LKey, rx.First, rx.Last}}, []int{SizeRxDesc}},
		{"send completion", tc, []codec{&TxCQE{common(tc.hotWord, uint16(tc.ReqID), tc.QP), tc.ReqID &^ 0xffff}}, []int{SizeTxCQE}},
		{"receive completion", rc, []codec{&RxCQE{common(rc.hotWord, rc.ReqID, rc.QP), rc.Length, rc.AH, rc.SrcQP, rc.Imm}}, []int{SizeRxCQE}},
	} {
		var want []byte
		for i, p := range c.parts {
			part := make([]byte, c.sizes[i])
			p.Encode(part)
			want = append(want, part...)
		}
		got := make([]byte, len(want))
		c.hot.Encode(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-struct +entry):\n%s", c.name, diff)
		}
	}
}

func TestWideCQELength(t *testing.T) {
	for _, c := range []struct {
		op   IOOp
		want uint32
	}{
		{IORDMAWrite, 0x12345678},
		{IOSend, 0x5678}, // the second half may be the sender's address
	} {
		var e WideCQE
		e.Base().SetRecv(7, 0x5678, UnknownAH, 9, 0)
		e.Base().SetWord(MakeCQEWord(1, CompOK, MakeCQEFlags(true, RecvQueue, c.op, false, false)))
		e.SetLengthHi(0x1234)
		if got := e.Length(); got != c.want {
			t.Errorf("%v: length %#x, want %#x", c.op, got, c.want)
		}
	}
	var d RxCQEEx
	d.SetLengthHi(0x1234)
	if d.LengthHi() != 0x1234 || d.Ext != (GID{0x34, 0x12}) {
		t.Errorf("RxCQEEx.SetLengthHi: %+v", d)
	}
}

func TestPageListBuffer(t *testing.T) {
	want := CtrlBuffer{Length: 0x11223344, Addr: 0x5566778899aabbcc}
	var c RegMR
	c.Pages = PageList{1, 2, 3, 4}
	c.Pages.SetBuffer(want)
	b, buf := make([]byte, SizeRegMR), make([]byte, pageListSize)
	c.Encode(b)
	want.Encode(buf)
	if diff := cmp.Diff(buf, b[4:4+pageListSize]); diff != "" {
		t.Errorf("a list in memory (-want +got):\n%s", diff)
	}
	if got := c.Pages.Buffer(); got != want {
		t.Errorf("Buffer() = %+v, want %+v", got, want)
	}
}

// pageListSize is what the page list takes in REG_MR.
const pageListSize = 8 * InlinePages

func TestFields(t *testing.T) {
	for _, c := range []struct {
		f         Field
		v, x      uint32
		want, get uint32
	}{
		{AQCapsEntrySize, 0xabcd0020, 128, 0x00800020, 128},
		{CapsResetTimeout, 0xffffffff, 0x55, 0xffffffeb, 0x15}, // 0x55 has more bits than the field
		{DevCtlResetReason, 1, uint32(ResetGeneric), 0x80000001, 8},
		{EQDBArm, 7, 1, 0x80000007, 1},
		{VersionMinor, 0, 3, 3, 3},
	} {
		got := c.f.Put(c.v, c.x)
		if got != c.want || c.f.Get(got) != c.get {
			t.Errorf("Field(%#x).Put(%#x, %#x) = %#x, Get %#x; want %#x, %#x", uint32(c.f), c.v, c.x, got, c.f.Get(got), c.want, c.get)
		}
		if fits := c.f.Fits(c.x); fits != (c.get == c.x) {
			t.Errorf("Field(%#x).Fits(%#x) = %v", uint32(c.f), c.x, fits)
		}
	}
}

func TestDoorbells(t *testing.T) {
	if got := EQDoorbell(0x1234, true); EQDBEQN.Get(got) != 0x1234 || EQDBArm.Get(got) != 1 {
		t.Errorf("EQDoorbell armed: %#x", got)
	}
	if got := EQDoorbell(0xffff, false); got != 0xffff {
		t.Errorf("EQDoorbell not armed: %#x", got)
	}
	d := MakeCQDoorbell(0xbeef, 6, true) // a sequence has two bits
	if d.Consumer() != 0xbeef || d.Sequence() != 2 || !d.Arm() {
		t.Errorf("CQ doorbell %#x: consumer %#x, sequence %d, arm %v", d, d.Consumer(), d.Sequence(), d.Arm())
	}
	for f, want := range map[Field]uint32{CQDBConsumer: 0xbeef, CQDBSequence: 2, CQDBArm: 1} {
		if got := f.Get(uint32(d)); got != want {
			t.Errorf("field %#x of CQ doorbell %#x is %#x, want %#x", uint32(f), d, got, want)
		}
	}
}

func TestAQPayload(t *testing.T) {
	for n, want := range map[int]int{SizeAQEntry: 60, SizeAQEntryV2: 116, 0: 0, 32: 0, 100: 0} {
		if got := len(AQPayload(make([]byte, n))); got != want {
			t.Errorf("an entry of %d bytes has a payload of %d, want %d", n, got, want)
		}
	}
}

// TestStrings checks that every number with a name says it, and that others say
// what they are.
func TestStrings(t *testing.T) {
	for _, c := range []struct {
		s    fmt.Stringer
		want string
	}{
		{RegEQDB, "EQ_DB"},
		{Reg(0x2), "register 0x2"},
		{ResetUserTrigger, "user"},
		{ResetReason(15), "reset reason 15"},
		{OpDetachEventCounter, "DETACH_EVENT_COUNTER"},
		{Opcode(22), "opcode 22"},
		{Opcode(255), "opcode 255"},
		{AdminResourceBusy, "RESOURCE_BUSY"},
		{AdminStatus(8), "admin status 8"},
		{AENQKeepAlive, "KEEP_ALIVE"},
		{AENQGroup(0), "notification group 0"},
		{FeatureQueueAttr2, "QUEUE_ATTR_2"},
		{FeatureID(8), "feature 8"},
		{QPTypeSRD, "SRD"},
		{QPType(0), "QP type 0"},
		{QPStateError, "ERR"},
		{QPState(math.MaxUint32), "QP state 4294967295"},
		{StatsNetwork, "NETWORK"},
		{IORDMAWrite, "RDMA_WRITE"},
		{IOOp(9), "operation 9"},
		{RecvQueue, "receive"},
		{CompRemoteRNR, "remote side is not ready: no receive is posted"},
		{CompStatus(16), "completion status 16"},
		{CompStatus(200), "completion status 200"},
	} {
		if got := c.s.String(); got != c.want {
			t.Errorf("%T(%d): %q, want %q", c.s, c.s, got, c.want)
		}
	}
	if got := Text([]byte("7.3.4\x00junk")); got != "7.3.4" {
		t.Errorf("Text: %q", got)
	}
	if got := Text([]byte("full")); got != "full" {
		t.Errorf("Text without a zero byte: %q", got)
	}
}
