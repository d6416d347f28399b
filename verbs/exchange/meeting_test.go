package exchange

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
)

func TestWhereAPeerMeets(t *testing.T) {
	for name, c := range map[string]struct {
		addr string
		ok   bool
	}{
		"IPv4": {"192.0.2.1:4791", true}, "IPv6": {"[2001:db8::1]:4791", true},
		"no port": {"192.0.2.1:0", false}, "everywhere": {"0.0.0.0:4791", false}, "all": {"255.255.255.255:4791", false}, "many": {"[ff02::1]:4791", false},
	} {
		m := &Meeting{at: cmOffer{Addr: netip.MustParseAddrPort(c.addr), Token: bytes.Repeat([]byte{7}, tokenSize)}}
		b := m.Offer()
		at, err := readMeeting(b)
		switch {
		case len(b) != MeetingSize:
			t.Errorf("%s: %d bytes", name, len(b))
		case !c.ok && (!errors.Is(err, ErrProtocol) || CheckMeeting(b) == nil):
			t.Errorf("%s: %v", name, err)
		case c.ok && (err != nil || at.Addr != m.at.Addr || !bytes.Equal(at.Token, m.at.Token)):
			t.Errorf("%s: %v, %+v", name, err, at)
		}
		if c.ok && CheckMeeting(b[1:]) == nil {
			t.Errorf("%s: one that is cut off was taken", name)
		}
	}
	if err := (*Meeting)(nil).Close(); err != nil {
		t.Error(err)
	}
}
