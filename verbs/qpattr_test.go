package verbs

import (
	"strings"
	"testing"
)

// rules is the kernel's table of state changes, one a line: types, from, to,
// what is required beside STATE, and what is allowed. A change that is not
// here is refused, but for those to RESET and ERR.
const rules = `
RC,UC,XRC_SEND,XRC_RECV RESET INIT | PKEY_INDEX PORT ACCESS_FLAGS |
UD,DRIVER               RESET INIT | PKEY_INDEX PORT QKEY |
RAW_PACKET              RESET INIT | PORT |
RC,UC,XRC_SEND,XRC_RECV INIT  INIT | | PKEY_INDEX PORT ACCESS_FLAGS
UD,DRIVER               INIT  INIT | | PKEY_INDEX PORT QKEY
RAW_PACKET              INIT  INIT | |
UC,XRC_SEND INIT RTR | AV PATH_MTU DEST_QPN RQ_PSN | ALT_PATH ACCESS_FLAGS PKEY_INDEX
RC,XRC_RECV INIT RTR | AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER | ALT_PATH ACCESS_FLAGS PKEY_INDEX
UD,DRIVER   INIT RTR | | PKEY_INDEX QKEY
RAW_PACKET  INIT RTR | |
UC         RTR RTS | SQ_PSN | CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE
RC         RTR RTS | SQ_PSN TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC | CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE
XRC_SEND   RTR RTS | SQ_PSN TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC | CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE
XRC_RECV   RTR RTS | SQ_PSN TIMEOUT | CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE
UD         RTR RTS | SQ_PSN | CUR_STATE QKEY
DRIVER     RTR RTS | SQ_PSN | CUR_STATE QKEY RNR_RETRY
RAW_PACKET RTR RTS | | RATE_LIMIT
UC,XRC_SEND RTS RTS | | CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE
RC,XRC_RECV RTS RTS | | CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE MIN_RNR_TIMER
UD,DRIVER   RTS RTS | | CUR_STATE QKEY
RAW_PACKET  RTS RTS | | RATE_LIMIT
RC,UC,XRC_SEND,XRC_RECV,UD,DRIVER RTS SQD | | EN_SQD_ASYNC_NOTIFY
RAW_PACKET                        RTS SQD | |
UC,XRC_SEND SQD RTS | | CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE
RC,XRC_RECV SQD RTS | | CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE MIN_RNR_TIMER
UD,DRIVER   SQD RTS | | CUR_STATE QKEY
RAW_PACKET  SQD RTS | |
UC         SQD SQD | | AV ALT_PATH ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE
RC         SQD SQD | | PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC ALT_PATH ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE
XRC_SEND   SQD SQD | | PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC ALT_PATH ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE
XRC_RECV   SQD SQD | | PORT AV TIMEOUT MAX_DEST_RD_ATOMIC ALT_PATH ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE
UD,DRIVER  SQD SQD | | PKEY_INDEX QKEY
RAW_PACKET SQD SQD | |
UD,DRIVER  SQE RTS | | CUR_STATE QKEY
UC         SQE RTS | | CUR_STATE ACCESS_FLAGS
RC,XRC_SEND,XRC_RECV,RAW_PACKET SQE RTS | |
`

var allTypes = []QPType{TypeRC, TypeUC, TypeUD, TypeRawPacket, TypeXRCSend, TypeXRCRecv, TypeDriver}

type change struct {
	t        QPType
	from, to QPState
}

func parseRules(t *testing.T) map[change][2]AttrMask {
	attrs := make(map[string]AttrMask)
	for bit := AttrMask(1); bit != 0; bit <<= 1 {
		attrs[bit.String()] = bit
	}
	states := make(map[string]QPState)
	for s := StateReset; s < StateUnknown; s++ {
		states[s.String()] = s
	}
	types := make(map[string]QPType)
	for _, q := range allTypes {
		types[q.String()] = q
	}
	set := func(text string) (m AttrMask) {
		for _, name := range strings.Fields(text) {
			if attrs[name] == 0 {
				t.Fatalf("no attribute %s", name)
			}
			m |= attrs[name]
		}
		return m
	}
	out := make(map[change][2]AttrMask)
	for line := range strings.SplitSeq(strings.TrimSpace(rules), "\n") {
		part := strings.Split(line, "|")
		head := strings.Fields(part[0])
		for _, q := range strings.Split(head[0], ",") {
			c := change{types[q], states[head[1]], states[head[2]]}
			if _, twice := out[c]; twice || c.t == 0 {
				t.Fatalf("line %q", line)
			}
			out[c] = [2]AttrMask{set(part[1]) | AttrState, set(part[2])}
		}
	}
	return out
}

// TestMasksAreExplainedBitByBit takes every state change of every type, and
// for each leaves out every bit that it requires, and adds every one that it
// does not know.
func TestMasksAreExplainedBitByBit(t *testing.T) {
	table := parseRules(t)
	for _, q := range allTypes {
		for from := StateReset; from < StateUnknown; from++ {
			for to := StateReset; to < StateUnknown; to++ {
				rule, known := table[change{q, from, to}]
				if to == StateReset || to == StateError && from != StateReset {
					rule, known = [2]AttrMask{AttrState}, true
				}
				name := q.String() + " " + from.String() + " to " + to.String()
				if !known {
					if got := explainMask(q, from, to, AttrState); !strings.Contains(got, "cannot go from") {
						t.Errorf("%s: %q", name, got)
					}
					continue
				}
				required, optional := rule[0], rule[1]
				for _, good := range []AttrMask{required, required | optional} {
					if got := explainMask(q, from, to, good); got != "" {
						t.Errorf("%s with %v: %q", name, good, got)
					}
				}
				for bit := AttrState; bit <= AttrRateLimit; bit <<= 1 {
					switch {
					case required&bit != 0:
						if got := explainMask(q, from, to, required&^bit); !strings.HasSuffix(got, "missing "+bit.String()) {
							t.Errorf("%s without %v: %q", name, bit, got)
						}
					case optional&bit == 0:
						if got := explainMask(q, from, to, required|bit); !strings.HasSuffix(got, "not allowed "+bit.String()) {
							t.Errorf("%s with %v: %q", name, bit, got)
						}
					}
				}
			}
		}
	}
}

func TestWhatIsMissingAndWhatIsTooMuchAreBothNamed(t *testing.T) {
	got := explainMask(TypeRC, StateInit, StateRTR, AttrState|AttrAV|AttrPathMTU|AttrRQPSN|AttrMaxDestRDAtomic|AttrQKey|AttrTimeout)
	want := "RC from INIT to RTR: missing MIN_RNR_TIMER|DEST_QPN, not allowed QKEY|TIMEOUT"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := explainMask(TypeRC, StateUnknown, StateRTR, 0); got != "" {
		t.Errorf("without knowing the state: %q", got)
	}
}
