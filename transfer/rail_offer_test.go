package transfer

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

func testEndpoint(qpn uint32) verbs.Endpoint {
	return verbs.Endpoint{QPN: qpn, PSN: 0xabcdef, MTU: 1024, Link: "Ethernet", GID: verbs.GID(netip.MustParseAddr("::ffff:192.0.2.1").As16())}
}

func rcOffered(pairs ...verbs.Endpoint) *offer {
	return &offer{kind: offerRC, device: "rxe0", rc: rcOffer{Offer: exchange.Offer{Transport: "InfiniBand", Device: "rxe0", Endpoints: pairs}, reads: 16}}
}

func efaOffered(gid string) *offer {
	return &offer{kind: offerEFA, device: "efa_0", efa: efaOffer{
		address: efa.Address{GID: efa.GID(netip.MustParseAddr(gid).As16()), QPN: 7, QKey: 8},
		notice:  efa.RemoteSlice{Addr: 1 << 40, RKey: 9, Left: MinMessage},
	}}
}

func mustBytes(t testing.TB, o *offer) []byte {
	t.Helper()
	b, err := o.bytes()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTheMostThatAnOfferHolds: as many queue pairs, and as many devices of other
// processes, as rails can have.
func TestTheMostThatAnOfferHolds(t *testing.T) {
	var pairs []verbs.Endpoint
	for i := range uint32(64) {
		pairs = append(pairs, testEndpoint(1<<24-1-i))
	}
	joined := &offer{kind: offerJoined, device: "efa_0..efa_63"}
	for range MaxNICs {
		e := efaOffered("fe80::1")
		e.efa.fabric[3] = 1
		joined.joined = append(joined.joined, mustBytes(t, e))
	}
	for _, o := range []*offer{rcOffered(pairs...), joined} {
		b := mustBytes(t, o)
		again, err := parseOffer(b)
		if err != nil || !bytes.Equal(mustBytes(t, again), b) {
			t.Errorf("%v: %v", o.kind, err)
		}
		t.Logf("%v: %d bytes", o.kind, len(b))
	}
	joined.joined = append(joined.joined, joined.joined...)
	if _, err := joined.bytes(); err == nil {
		t.Error("an offer of more than MaxOffer bytes was made")
	}
	if _, err := (&offer{kind: offerEFA, device: "a b"}).bytes(); err == nil {
		t.Error("a device with a space in its name")
	}
}

// asRC and asEFA check an offer as a rail with one peer offered and one open
// does.
func asRC(b []byte) error {
	own := &rcPeer{own: rcOffered(testEndpoint(17)).rc.Offer}
	r := &RC{info: Info{Device: "rxe1"}, peers: []*rcPeer{own, {id: 1, stage: peerOpen, theirs: []verbs.Endpoint{testEndpoint(33)}}}}
	_, err := r.readOffer(own, b)
	return err
}

func TestOffersThatRCRefuses(t *testing.T) {
	with := func(change func(*verbs.Endpoint)) *offer {
		e := testEndpoint(34)
		change(&e)
		return rcOffered(e)
	}
	if err := asRC(mustBytes(t, rcOffered(testEndpoint(34)))); err != nil {
		t.Fatal(err)
	}
	iwarp := rcOffered()
	iwarp.rc.Transport, iwarp.rc.meeting = IWARP, make([]byte, exchange.MeetingSize)
	for name, c := range map[string]struct {
		o     *offer
		class error
		words string
	}{
		"EFA":       {efaOffered("fe80::1"), exchange.ErrMismatch, "accept on rxe1 the offer of efa_0: the peer's rail is EFA and this one reliable connections"},
		"iWARP":     {iwarp, exchange.ErrMismatch, "choose devices of one transport"},
		"link":      {with(func(e *verbs.Endpoint) { e.Link = "InfiniBand" }), exchange.ErrMismatch, "choose ports of one link layer"},
		"more":      {rcOffered(testEndpoint(34), testEndpoint(35)), exchange.ErrMismatch, "2 queue pairs"},
		"twice":     {rcOffered(testEndpoint(34), testEndpoint(34)), exchange.ErrMismatch, "2 queue pairs"},
		"own":       {rcOffered(testEndpoint(17)), exchange.ErrProtocol, "this side's own"},
		"connected": {rcOffered(testEndpoint(33)), exchange.ErrProtocol, "connected already, as peer 1"},
		"loopback": {with(func(e *verbs.Endpoint) { e.GID = verbs.GID(netip.MustParseAddr("::ffff:127.0.0.1").As16()) }),
			exchange.ErrProtocol, "not the address of a port"},
		"MTU": {with(func(e *verbs.Endpoint) { e.MTU = 1500 }), exchange.ErrProtocol, "MTU of 1500"},
		"QPN": {with(func(e *verbs.Endpoint) { e.QPN = 1 << 24 }), exchange.ErrProtocol, "0x1000000"},
	} {
		if err := asRC(mustBytes(t, c.o)); !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOffersThatEFARefuses(t *testing.T) {
	e, err := NewEmbedded(EmbeddedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	rail, err := e.Node(0).Open(Want{})
	if err != nil {
		t.Fatal(err)
	}
	defer rail.Close()
	p, own, err := rail.Offer()
	if err != nil {
		t.Fatal(err)
	}
	embedded := func(gid string) *offer {
		o := efaOffered(gid)
		o.efa.fabric = e.id
		return o
	}
	elsewhere := embedded("fe80::1")
	elsewhere.efa.fabric[0]++
	for name, c := range map[string]struct {
		b     []byte
		class error
		words string
	}{
		"RC":              {mustBytes(t, rcOffered(testEndpoint(1))), exchange.ErrMismatch, "reliable connections and this one EFA"},
		"own":             {own, exchange.ErrProtocol, "this side's own"},
		"another process": {mustBytes(t, elsewhere), errors.ErrUnsupported, "no link leads to it"},
		"kernel":          {mustBytes(t, efaOffered("fe80::1")), exchange.ErrMismatch, "only one side's EFA device is embedded"},
		"no GID":          {mustBytes(t, embedded("::")), exchange.ErrProtocol, "no GID"},
		"multicast":       {mustBytes(t, embedded("ff02::1")), exchange.ErrProtocol, "not the address of a port"},
		"loopback":        {mustBytes(t, embedded("::1")), exchange.ErrProtocol, "not the address of a port"},
		"newer":           {append([]byte{2}, own[1:]...), exchange.ErrVersion, "run the same peerdirect on both machines"},
		"control codes":   {append([]byte{1, 2, 3, 27, '[', 'J'}, own[2:]...), exchange.ErrProtocol, `"\x1b[J"`},
	} {
		if err := rail.Accept(p, c.b); !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzOffer(f *testing.F) {
	f.Add(mustBytes(f, rcOffered(testEndpoint(1), testEndpoint(2))))
	f.Add(mustBytes(f, rcOffered(testEndpoint(34))))
	f.Add(mustBytes(f, efaOffered("fe80::1")))
	iwarp := rcOffered(testEndpoint(1))
	iwarp.rc.Transport, iwarp.rc.meeting = IWARP, bytes.Repeat([]byte{7}, exchange.MeetingSize)
	f.Add(mustBytes(f, iwarp))
	f.Add(mustBytes(f, &offer{kind: offerJoined, device: "efa_0", joined: [][]byte{mustBytes(f, efaOffered("fe80::2"))}}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		accepted := asRC(b) == nil
		o, err := parseOffer(b)
		if err != nil {
			if accepted {
				t.Error("a rail takes what cannot be read")
			}
			if o.refuse("rxe0", err).Error() == "" {
				t.Error("no words")
			}
			return
		}
		if o.kind == offerRC && len(o.rc.Endpoints) == 0 {
			return // says only what transport it is
		}
		if again := mustBytes(t, o); !bytes.Equal(again, b) {
			t.Errorf("% x is written again as % x", b, again)
		}
	})
}
