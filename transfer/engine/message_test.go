package engine

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/peerdirect/peerdirect/transfer"
)

var someMessages = []message{
	{kind: msgHello, incarnation: 1<<63 + 5, count: 32, name: "node0"},
	{kind: msgOffer, rail: 31, generation: 7, bytes: []byte("an offer")},
	{kind: msgReady, rail: 1, generation: 1 << 31, count: 128},
	{kind: msgFenced, rail: 2, generation: 3},
	{kind: msgCredit, rail: 0, generation: 1, count: 64},
	{kind: msgGrant, name: "kv", bytes: []byte("a region")},
	{kind: msgWithdraw, name: "kv"},
	{kind: msgWithdrawn, name: "kv"},
	{kind: msgWarm},
	{kind: msgWarmed},
	{kind: msgTaken, count: 1<<32 - 1},
	{kind: msgCame, count: 2, name: "step"},
	{kind: msgAsk, rail: 1, generation: 2, count: 1<<31 + 5},
	{kind: msgCounted, rail: 1, generation: 2, count: 7},
	{kind: msgUncounted, generation: 2, count: 8},
	{kind: msgWiden, name: "kv", bytes: []byte("rails")},
	{kind: msgKeys, name: "kv", bytes: []byte("a region")},
	{kind: msgBroke, count: 3, name: "step", bytes: []byte("node1 is gone")},
}

func TestMessagesComeBack(t *testing.T) {
	for _, m := range someMessages {
		payload := m.append(nil)
		var got message
		if err := got.parse(uint16(m.kind), payload); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%+v came back as %+v: %v", m, got, err)
		}
		for n := range payload {
			if m.bytes != nil && n >= len(payload)-len(m.bytes) {
				break // what is at the end has no length of its own
			}
			if err := got.parse(uint16(m.kind), payload[:n]); !errors.Is(err, errProtocol) {
				t.Errorf("%d of %d bytes of type %d: %v", n, len(payload), m.kind, err)
			}
		}
		if m.bytes == nil {
			if err := got.parse(uint16(m.kind), append(payload, 0)); !errors.Is(err, errProtocol) {
				t.Errorf("a byte too many of type %d: %v", m.kind, err)
			}
		}
	}
}

// TestTextOfPeers: what a peer says stands in errors, and does nothing to a terminal.
func TestTextOfPeers(t *testing.T) {
	e := new(Engine)
	p := &Peer{e: e, meetings: make(map[string]*meeting)}
	if err := p.broke("step", 1, "gone\n\x1b[2J\xff\u202e\u2028 für immer"); err != nil {
		t.Fatal(err)
	}
	if got := p.meetings["step"].reason; got != "gone??[2J??? für immer" {
		t.Errorf("%q", got)
	}
	for text, want := range map[string]bool{"": true, "node 0": true, "größer": true, "a\nb": false, "\xff": false, "\u202e": false} {
		if printable(text) != want {
			t.Errorf("%q", text)
		}
	}
	if _, err := New(Options{Name: "a\tb"}); err == nil {
		t.Error("a name that peers refuse was taken")
	}
}

func FuzzMessage(f *testing.F) {
	for _, m := range someMessages {
		f.Add(uint16(m.kind), m.append(nil))
	}
	f.Fuzz(func(t *testing.T, kind uint16, payload []byte) {
		var m message
		if err := m.parse(kind, payload); err != nil {
			if !errors.Is(err, errProtocol) {
				t.Fatal(err)
			}
			return
		}
		if again := m.append(nil); !bytes.Equal(again, payload) {
			t.Errorf("%x was read as %+v, which is %x", payload, m, again)
		}
	})
}

func someRemote() Remote {
	return Remote{Incarnation: 77, Rights: Read | Write, d: transfer.Descriptor{Addr: 0x7000_0000_0000, Length: 1 << 30, Keys: []uint32{1, 0, 0xffffffff, 0, 0, 0, 0, 0, 0, 3}}, rails: railSet{1 | 1<<2 | 1<<9}}
}

func TestRemoteComesBack(t *testing.T) {
	want := someRemote()
	b, err := want.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if len(b) != remoteHeader+2+12 || len(b) > RemoteMax {
		t.Errorf("%d bytes", len(b))
	}
	var got Remote
	if err := got.UnmarshalBinary(b); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []struct {
		name string
		edit func([]byte) []byte
	}{
		{"nothing", func([]byte) []byte { return nil }},
		{"short", func(b []byte) []byte { return b[:len(b)-1] }},
		{"long", func(b []byte) []byte { return append(b, 0) }},
		{"not one", func(b []byte) []byte { b[0] = 'X'; return b }},
		{"another version", func(b []byte) []byte { b[3]++; return b }},
		{"no rights", func(b []byte) []byte { b[28] = 0; return b }},
		{"rights that there are not", func(b []byte) []byte { b[28] = 4; return b }},
		{"no rails", func(b []byte) []byte { b[29], b[30] = 0, 0; return b[:remoteHeader] }},
		{"no keys", func(b []byte) []byte { b[31], b[32] = 0, 0; return b[:remoteHeader+2] }},
		{"cut within the bits", func(b []byte) []byte { return b[:remoteHeader+1] }},
		{"a key of the 11th of 10 rails", func(b []byte) []byte { b[32] = 1 << 2; return b }},
		{"a key more than it has", func(b []byte) []byte { b[31] |= 2; return b }},
		{"no bytes", func(b []byte) []byte { clear(b[20:28]); return b }},
		{"beyond the address space", func(b []byte) []byte { b[12] = 0xff; b[20] = 0xff; return b }},
	} {
		got := someRemote()
		if err := got.UnmarshalBinary(bad.edit(bytes.Clone(b))); !errors.Is(err, ErrDescriptor) {
			t.Errorf("%s: %v", bad.name, err)
		}
		if !reflect.DeepEqual(got, someRemote()) {
			t.Errorf("%s: it was changed", bad.name)
		}
	}
}

func FuzzRemote(f *testing.F) {
	b, _ := someRemote().MarshalBinary()
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Remote
		if err := r.UnmarshalBinary(b); err != nil {
			return
		}
		if again, err := r.MarshalBinary(); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%x came back as %x: %v", b, again, err)
		}
	})
}
