package transfer

import (
	"encoding/binary"
	"fmt"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// An offer is, with big-endian integers and names that begin with their length
// in a byte:
//
//	1  version of this format
//	1  kind
//	n  name of the device
//
// then for reliable connections
//
//	n, n  transport, link layer ("Ethernet")
//	1     reads and atomics that the device answers at once
//	2, 2  path MTU in bytes, LID
//	16    GID
//	1     queue pairs; of each 4 number, 4 first packet number
//	16, 2, 8  on iWARP: address and port where the RDMA CM waits, and a token
//
// for EFA
//
//	16        GID
//	2, 4      queue pair, Q_Key
//	8, 4      address and key of memory for notices without bytes
//	16        fabric of an embedded device, else 0
//
// and for several devices
//
//	1  how many; of each 2 length, and its offer
const offerVersion = 1

// offerKind is what kind of rail made an offer.
type offerKind uint8

const (
	offerRC offerKind = iota + 1
	offerEFA
	offerJoined
	offerOther offerKind = 0xff // a test's own: bytes that it understands
)

// offer is an offer's content.
type offer struct {
	kind   offerKind
	device string
	rc     rcOffer
	efa    efaOffer
	joined [][]byte
	other  []byte
}

type rcOffer struct {
	exchange.Offer // Device is the offer's
	reads          uint8
	meeting        []byte // of iWARP
}

type efaOffer struct {
	address efa.Address
	notice  efa.RemoteSlice
	fabric  fabricID
}

// fabricID tells the fabrics of embedded devices apart; 0 is the kernel's.
type fabricID [16]byte

// bytes is the offer as Offer gives it.
func (o *offer) bytes() ([]byte, error) {
	name := func(b []byte, s string) []byte { return append(append(b, byte(len(s))), s...) }
	be := binary.BigEndian
	b := name([]byte{offerVersion, byte(o.kind)}, o.device)
	ok := offerName(o.device)
	switch o.kind {
	case offerRC:
		var first verbs.Endpoint
		if len(o.rc.Endpoints) > 0 {
			first = o.rc.Endpoints[0]
		} else {
			first.Link = "unspecified"
		}
		ok = ok && offerName(o.rc.Transport) && offerName(first.Link)
		b = append(name(name(b, o.rc.Transport), first.Link), o.rc.reads)
		b = be.AppendUint16(be.AppendUint16(b, uint16(first.MTU)), first.LID)
		b = append(append(b, first.GID[:]...), byte(len(o.rc.Endpoints)))
		for _, e := range o.rc.Endpoints {
			b = be.AppendUint32(be.AppendUint32(b, e.QPN), e.PSN)
		}
		b = append(b, o.rc.meeting...)
	case offerEFA:
		a := o.efa.address
		b = be.AppendUint32(be.AppendUint16(append(b, a.GID[:]...), a.QPN), a.QKey)
		b = be.AppendUint32(be.AppendUint64(b, o.efa.notice.Addr), o.efa.notice.RKey)
		b = append(b, o.efa.fabric[:]...)
	case offerJoined:
		b = append(b, byte(len(o.joined)))
		for _, m := range o.joined {
			b = append(be.AppendUint16(b, uint16(len(m))), m...)
		}
	case offerOther:
		b = append(b, o.other...)
	}
	switch {
	case !ok:
		return nil, fmt.Errorf("an offer cannot name %.80q: at most %d letters without spaces", o.device, maxOfferName)
	case len(b) > MaxOffer:
		return nil, fmt.Errorf("an offer of %d bytes, at most %d are allowed: use fewer queue pairs or devices", len(b), MaxOffer)
	}
	return b, nil
}

// offerReader reads from the front; what is not there reads as zero, and is
// noted.
type offerReader struct {
	rest  []byte
	short bool
}

func (r *offerReader) take(n int) []byte {
	if n > len(r.rest) {
		r.rest, r.short = nil, true
		return make([]byte, n)
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *offerReader) byte() byte     { return r.take(1)[0] }
func (r *offerReader) uint16() uint16 { return binary.BigEndian.Uint16(r.take(2)) }
func (r *offerReader) uint32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }
func (r *offerReader) uint64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }
func (r *offerReader) name() string   { return string(r.take(int(r.byte()))) }

// parseOffer reads an offer, which may be anybody's. What it gives with an error
// is good for naming the device alone.
func parseOffer(b []byte) (*offer, error) {
	o := new(offer)
	if len(b) > MaxOffer {
		return o, nonsense("it has %d bytes, at most %d are allowed", len(b), MaxOffer)
	}
	r := &offerReader{rest: b}
	if v := r.byte(); v != offerVersion && !r.short {
		return o, &exchange.Error{Err: exchange.ErrVersion, Detail: fmt.Sprintf(
			"it has version %d of the format, this side knows version %d; run the same peerdirect on both machines", v, offerVersion)}
	}
	o.kind = offerKind(r.byte())
	device := r.name()
	if !offerName(device) && !r.short {
		return o, nonsense("a device called %.80q", device)
	}
	if !r.short {
		o.device = device
	}
	switch o.kind {
	case offerRC:
		o.readRC(r)
	case offerEFA:
		o.efa.address.GID = efa.GID(r.take(16))
		o.efa.address.QPN, o.efa.address.QKey = r.uint16(), r.uint32()
		o.efa.notice = efa.RemoteSlice{Addr: r.uint64(), RKey: r.uint32(), Left: MinMessage}
		o.efa.fabric = fabricID(r.take(16))
	case offerJoined:
		for range r.byte() {
			o.joined = append(o.joined, r.take(int(r.uint16())))
		}
	case offerOther:
		o.other = r.take(len(r.rest))
	default:
		return o, nonsense("a rail %v", o.kind)
	}
	switch {
	case r.short:
		return o, nonsense("it is cut off: %d bytes are too few", len(b))
	case len(r.rest) > 0:
		return o, nonsense("%d bytes are left over behind it", len(r.rest))
	case o.kind == offerRC && (!offerName(o.rc.Transport) || len(o.rc.Endpoints) > 0 && !offerName(o.rc.Endpoints[0].Link)):
		return o, nonsense("a transport called %.80q", o.rc.Transport)
	}
	return o, nil
}

func (o *offer) readRC(r *offerReader) {
	var e verbs.Endpoint
	o.rc.Device, o.rc.Transport, e.Link, o.rc.reads = o.device, r.name(), r.name(), r.byte()
	e.MTU, e.LID, e.GID = int(r.uint16()), r.uint16(), verbs.GID(r.take(16))
	n := int(r.byte())
	if 8*n > len(r.rest) {
		r.short = true
		return
	}
	for range n {
		e.QPN, e.PSN = r.uint32(), r.uint32()
		o.rc.Endpoints = append(o.rc.Endpoints, e)
	}
	if o.rc.Transport == IWARP {
		o.rc.meeting = r.take(exchange.MeetingSize)
	}
}
