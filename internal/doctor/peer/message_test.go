package peer

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

func hello() message {
	n := roce(4096)
	return message{Kind: kindHello, NIC: &n, Seed: 1 << 63}
}

// TestMessages go through unchanged.
func TestMessages(t *testing.T) {
	for _, m := range []message{
		hello(),
		{Kind: kindBegin, Step: StepOrder},
		{Kind: kindWord, Step: StepKeys, Offer: []byte{0, 1, 255}, Region: &place{1 << 63, 1 << 62, 1<<32 - 1}},
		{Kind: kindWord, Step: StepMTU, Probe: &probe{65535, []byte("0123456789abcdef")}},
		{Kind: kindDone, Step: StepLarge, Evidence: []string{"a", "b"}, Figures: []Figure{{"rate", 1.5, "MiB/s"}}},
		{Kind: kindFailed, Step: StepBack, Error: &said{"<no> & why", exchange.ClassVerification, "do"}},
		{Kind: kindBye},
	} {
		b, err := m.bytes()
		if err != nil {
			t.Fatal(err)
		}
		got, err := readMessage(b)
		if err != nil || cmp.Diff(m, got, cmp.AllowUnexported(message{})) != "" {
			t.Errorf("%v\n%s", err, cmp.Diff(m, got, cmp.AllowUnexported(message{})))
		}
	}
}

// TestLongMessages are cut, and can still be read.
func TestLongMessages(t *testing.T) {
	m := message{Kind: kindDone, Step: StepBack, Error: &said{Text: strings.Repeat("ä<", 10_000)}}
	for range 100 {
		m.Evidence = append(m.Evidence, strings.Repeat("&\x00", 2000))
	}
	b, err := m.bytes()
	if err != nil {
		t.Fatal(err)
	}
	got, err := readMessage(b)
	if err != nil || len(got.Evidence) != maxEvidence || len(got.Error.Text) > maxText+3 || strings.ContainsAny(got.Evidence[0], "\x00") {
		t.Errorf("%v: %d lines, %d bytes", err, len(got.Evidence), len(b))
	}
}

// TestNoMessages: what is refused, and why.
func TestNoMessages(t *testing.T) {
	for text, class := range map[string]error{
		``:                                  ErrProtocol,
		`{}`:                                ErrProtocol,
		`[]`:                                ErrProtocol,
		`{"protocol":"1","kind":"bye"}`:     ErrProtocol,
		`{"protocol":2,"anything":7}`:       exchange.ErrVersion,
		`{"protocol":1}`:                    ErrProtocol,
		`{"protocol":1,"kind":"wave"}`:      ErrProtocol,
		`{"protocol":1,"kind":"bye"} {}`:    ErrProtocol,
		`{"protocol":1,"kind":"bye","x":1}`: ErrProtocol,
		`{"protocol":1,"kind":"hello"}`:     ErrProtocol,
		`{"protocol":1,"kind":"begin"}`:     ErrProtocol,
		`{"protocol":1,"kind":"begin","step":"jump"}`:                                                  ErrProtocol,
		`{"protocol":1,"kind":"failed","step":"mtu"}`:                                                  ErrProtocol,
		`{"protocol":1,"kind":"failed","step":"mtu","error":{"text":""}}`:                              ErrProtocol,
		`{"protocol":1,"kind":"word","step":"mtu","round":-1}`:                                         ErrProtocol,
		`{"protocol":1,"kind":"word","step":"mtu","probe":{"port":0,"token":""}}`:                      ErrProtocol,
		`{"protocol":1,"kind":"word","step":"keys","region":{"addr":18446744073709551615,"length":2}}`: ErrProtocol,
		`{"protocol":1,"kind":"done","step":"mtu","figures":[{"name":"a b"}]}`:                         ErrProtocol,
		`{"protocol":1,"kind":"hello","nic":{"device":"a\u001b"}}`:                                     ErrProtocol,
		`{"protocol":1,"kind":"hello","nic":{"device":""}}`:                                            ErrProtocol,
		`{"protocol":1,"kind":"hello","nic":{"device":"a","ip_address":"x"}}`:                          ErrProtocol,
		`{"protocol":1,"kind":"hello","nic":{"device":"a","ip_address":"2001:db8::1%\u001b[2J"}}`:      ErrProtocol,
		`{"protocol":1,"kind":"hello","nic":{"device":"a","mtu":-1}}`:                                  ErrProtocol,
		`{"protocol":1,"kind":"word","step":"keys","offer":"` + strings.Repeat("A", 8192) + `"}`:       ErrProtocol,
		strings.Repeat(" ", maxMessage+1):                                                              ErrProtocol,
	} {
		if m, err := readMessage([]byte(text)); !errors.Is(err, class) {
			t.Errorf("%.100s: %+v, %v", text, m, err)
		}
	}
}

func FuzzMessage(f *testing.F) {
	for _, m := range []message{hello(), {Kind: kindWord, Step: StepKeys, Offer: []byte{1}, Region: &place{1, 2, 3}}, {Kind: kindFailed, Step: StepMTU, Error: &said{Text: "no"}}} {
		b, err := m.bytes()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"protocol":1,"kind":"word","step":"mtu","probe":{"port":1,"token":"MDEyMzQ1Njc4OWFiY2RlZg=="},"evidence":["\u001b[2J"]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := readMessage(b)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\x1b\n\x00") {
				t.Errorf("%q", err)
			}
			return
		}
		out, err := m.bytes()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readMessage(out); err != nil {
			t.Errorf("%s is not read again: %v", out, err)
		}
	})
}

func FuzzProbe(f *testing.F) {
	token := []byte("0123456789abcdef")
	b := make([]byte, 100)
	putProbe(b, token, 7, 100)
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		n, answer, ok := readProbe(b, token)
		if !ok {
			return
		}
		if answer < probeSize || answer > maxProbe {
			t.Fatalf("an answer of %d bytes", answer)
		}
		again := make([]byte, answer)
		putProbe(again, token, n, answer)
		if m, _, ok := readProbe(again, token); !ok || m != n {
			t.Errorf("number %d became %d", n, m)
		}
	})
}

// TestPattern: pieces differ from each other, and one damaged byte is found.
func TestPattern(t *testing.T) {
	a, b := make([]byte, 4096), make([]byte, 4096)
	fill(a, 1, StepSmall, 0, 0)
	for i, other := range []func(){
		func() { fill(b, 2, StepSmall, 0, 0) }, func() { fill(b, 1, StepLarge, 0, 0) },
		func() { fill(b, 1, StepSmall, 1, 0) }, func() { fill(b, 1, StepSmall, 0, 1) },
	} {
		if other(); bytes.Equal(a, b) {
			t.Errorf("pattern %d is the same", i)
		}
	}
	// A part has the bytes of the whole.
	if fill(b[:1001], 1, StepSmall, 0, 0); !bytes.Equal(a[:1001], b[:1001]) {
		t.Error("a part has other bytes")
	}
	at := rand.IntN(len(a))
	a[at] ^= 128
	err := compare(a, 1, StepSmall, 0, 0)
	var d *DamageError
	if !errors.As(err, &d) || d.First != at || d.Wrong != 1 || d.Got != d.Want^128 || !errors.Is(err, exchange.ErrVerification) {
		t.Errorf("%v, damaged at %d", err, at)
	}
	if !bytes.Equal(a, make([]byte, len(a))) {
		t.Error("not cleared")
	}
	if err := compare(a, 1, StepSmall, 0, 0); !strings.Contains(err.Error(), "nothing was written there") {
		t.Error(err)
	}
}
