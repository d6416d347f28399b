package nldev

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/verbs/nldev/internal/abi"
)

// bodies are one of each answer that this package can read.
func bodies() []attrs {
	return []attrs{
		nil, rxe0, mlx, qpTable, cmTable, cqTable, mrTable, pdTable, ctxTable, srqTable,
		summaryBody, countersBody, qpCounterTable, mrCounterTable, frmrTable, charDevBody,
	}
}

// FuzzParseMessages: whatever a datagram holds is either refused or taken apart
// into messages that put together again give the same.
func FuzzParseMessages(f *testing.F) {
	for i, body := range bodies() {
		m := message{kind: 5<<10 | 10, flags: unix.NLM_F_MULTI, seq: uint32(i), port: 99, body: body}
		one := m.append(nil)
		f.Add(one)
		f.Add(message{kind: unix.NLMSG_DONE, seq: uint32(i), body: make([]byte, 4)}.append(one))
		f.Add(one[:len(one)-1])
	}
	for _, reason := range []string{"", "because"} {
		f.Add(refuse(message{seq: 3}, unix.EPERM, reason)[0][0].append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		messages, err := parseMessages(b)
		if err != nil {
			if !errors.Is(err, errMalformed) || messages != nil {
				t.Errorf("%v, %v", messages, err)
			}
			return
		}
		var again []byte
		for _, m := range messages {
			again = m.append(again)
			var refused *refusal
			if err := parseVerdict(m); err != nil && !errors.Is(err, errMalformed) && !errors.As(err, &refused) {
				t.Errorf("verdict %v", err)
			}
		}
		// The last message may have come without its padding, and padding need not
		// be zero.
		reread, err := parseMessages(again)
		if err != nil || len(again) < len(b) || len(reread) != len(messages) {
			t.Fatalf("%d bytes became %d: %v", len(b), len(again), err)
		}
		for i := range messages {
			if !bytes.Equal(messages[i].body, reread[i].body) || messages[i].kind != reread[i].kind || messages[i].seq != reread[i].seq {
				t.Errorf("message %d changed", i)
			}
		}
	})
}

// FuzzParseAttributes: no decoder panics, allocates out of proportion to its
// input, or accepts attributes that claim more than there is.
func FuzzParseAttributes(f *testing.F) {
	for _, body := range bodies() {
		f.Add([]byte(body))
		if len(body) > 5 {
			f.Add([]byte(body[:len(body)-5]))
			longer := bytes.Clone(body)
			longer[0] += 200
			f.Add(longer)
		}
	}
	f.Add([]byte(deep(200)))
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, decoder := range decoders() {
			r := attrReader{rest: b}
			if found := decoder(&r); found > len(b)/attrHeader {
				t.Errorf("%s found %d things in %d bytes", name, found, len(b))
			}
			if r.err != nil && !errors.Is(r.err, errMalformed) {
				t.Errorf("%s: %v", name, r.err)
			}
			if r.err == nil && len(r.rest) != 0 {
				t.Errorf("%s stopped with %d bytes left and no error", name, len(r.rest))
			}
		}
	})
}

// decoders are all that this package decodes; each tells how many things it
// found.
func decoders() map[string]func(*attrReader) int {
	return map[string]func(*attrReader) int{
		"Device":    func(r *attrReader) int { new(Device).decode(r); return 0 },
		"Link":      func(r *attrReader) int { new(Link).decode(r); return 0 },
		"System":    func(r *attrReader) int { new(System).decode(r); return 0 },
		"Event":     func(r *attrReader) int { new(Event).decode(r); return 0 },
		"Summary":   func(r *attrReader) int { var s Summary; s.decode(r); return len(s.Counts) },
		"Counters":  func(r *attrReader) int { var c []Counter; decodeCounters(&c)(r); return len(c) - 1 },
		"CharDev":   func(r *attrReader) int { new(CharDev).decode(r); return 0 },
		"FRMRPool":  func(r *attrReader) int { new(FRMRPool).decode(r); return 0 },
		"QP":        entry[QP],
		"CMID":      entry[CMID],
		"CQ":        entry[CQ],
		"MR":        entry[MR],
		"PD":        entry[PD],
		"Context":   entry[Context],
		"SRQ":       entry[SRQ],
		"QPCounter": entry[QPCounter],
		"MRCounter": entry[MRCounters],
		"tables": func(r *attrReader) (found int) {
			for r.next() {
				r.each(abi.RDMA_NLDEV_ATTR_RES_QP_ENTRY, func(r *attrReader) { found += entry[QP](r) })
			}
			return found
		},
	}
}

func entry[T any, P object[T]](r *attrReader) int {
	one := P(new(T))
	for r.next() {
		one.object().decodeAny(r)
		one.decodeAttr(r)
	}
	return len(one.object().Driver)
}

// deep is attributes nested n levels, every level of a kind that some decoder
// descends into.
func deep(n int) attrs {
	inner := attrs(nil).uint32(abi.RDMA_NLDEV_ATTR_RES_LQPN, 1)
	for range n {
		inner = attrs(nil).nest(abi.RDMA_NLDEV_ATTR_RES_QP, attrs(nil).nest(abi.RDMA_NLDEV_ATTR_RES_QP_ENTRY, inner))
	}
	return inner
}

func TestMalformedAttributes(t *testing.T) {
	attr := func(size, kind uint16, data ...byte) []byte {
		b := attrs(nil).bytes(kind, data)
		copy(b, attrs(nil).uint32(0, uint32(size))[attrHeader:attrHeader+2])
		return b
	}
	for name, b := range map[string][]byte{
		"a header cut off":            {8, 0, 1},
		"a length below the header's": attr(3, abi.RDMA_NLDEV_ATTR_DEV_INDEX),
		"a length of nothing":         attr(0, abi.RDMA_NLDEV_ATTR_DEV_INDEX),
		"a length beyond the end":     attr(9, abi.RDMA_NLDEV_ATTR_DEV_INDEX, 1, 2, 3, 4),
		"a number too short":          attr(6, abi.RDMA_NLDEV_ATTR_DEV_INDEX, 1, 2),
		"a number too long":           attr(12, abi.RDMA_NLDEV_ATTR_DEV_INDEX, 1, 2, 3, 4, 5, 6, 7, 8),
		"bytes behind the last":       append(attrs(nil).uint32(abi.RDMA_NLDEV_ATTR_DEV_INDEX, 1), 0, 0),
	} {
		t.Run(name, func(t *testing.T) {
			r := attrReader{rest: b}
			new(Device).decode(&r)
			if !errors.Is(r.err, errMalformed) {
				t.Error(r.err)
			}
		})
	}
	// The innermost error comes out.
	r := attrReader{rest: table(abi.RDMA_NLDEV_ATTR_RES_SUMMARY, abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY,
		attrs(nil).uint32(abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, 1))}
	new(Summary).decode(&r)
	if want := "malformed netlink message: attribute 18 has 4 bytes, not 8"; fmt.Sprint(r.err) != want {
		t.Error(r.err)
	}
}

func TestMalformedVerdicts(t *testing.T) {
	for name, m := range map[string]message{
		"short":      {kind: unix.NLMSG_ERROR, body: []byte{1, 2}},
		"positive":   {kind: unix.NLMSG_ERROR, body: native32(5)},
		"impossible": {kind: unix.NLMSG_DONE, body: native32(0x80000000)},
	} {
		if err := parseVerdict(m); !errors.Is(err, errMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := parseVerdict(message{kind: unix.NLMSG_DONE}); err != nil {
		t.Error(err)
	}
}
