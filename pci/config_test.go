package pci

import (
	"encoding/binary"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// space is a config space: power management at 40, PCI Express of that type at 50.
func space(size int, port byte) []byte {
	b := make([]byte, size)
	binary.LittleEndian.PutUint16(b, 0x15b3)
	b[configStatus] = statusCapabilities
	b[configCapabilities] = 0x40
	if size >= configSize {
		copy(b[0x40:], []byte{0x01, 0x50})
		copy(b[0x50:], []byte{capabilityExpress, 0, port<<4 | 2, 0})
	}
	return b
}

// extend puts extended capabilities at the places given; each leads to the next.
func extend(b []byte, list ...extendedAt) []byte {
	for i, c := range list {
		next := 0
		if i+1 < len(list) {
			next = list[i+1].at
		}
		binary.LittleEndian.PutUint32(b[c.at:], uint32(c.id)|1<<16|uint32(next)<<20)
		binary.LittleEndian.PutUint32(b[c.at+4:], c.word)
	}
	return b
}

type extendedAt struct {
	at   int
	id   uint16
	word uint32
}

func set(b []byte, at int, v ...byte) []byte {
	copy(b[at:], v)
	return b
}

func TestConfigSpace(t *testing.T) {
	const aer, dsn = 0x0001, 0x0003
	all := []extendedAt{{0x100, aer, 0}, {0x148, dsn, 0}, {0x160, extendedCapACS, 0x001d_005f}}
	ones := []byte(strings.Repeat("\xff", configExtended))
	for _, c := range []struct {
		name  string
		b     []byte
		port  Port
		acs   *ACS
		known bool
		err   string
	}{
		{"a root port that redirects", extend(space(4096, 4), all...), RootPort, &ACS{0x5f, 0x1d}, true, ""},
		{"an upstream port without", extend(space(4096, 5), all[:2]...), UpstreamPort, nil, true, ""},
		{"an endpoint with an empty list", space(4096, 0), Endpoint, nil, true, ""},
		{"a list that says so in ones", set(space(4096, 0), 0x100, 0xff, 0xff, 0xff, 0xff), Endpoint, nil, true, ""},
		{"the root's own endpoint", space(4096, 9), IntegratedEndpoint, nil, true, ""},
		{"a type that is none", space(4096, 15), PortUnknown, nil, false, ""},
		{"unprivileged", space(64, 0), PortUnknown, nil, false, ""},
		{"unprivileged, and no capabilities", set(space(64, 0), configStatus, 0), NotExpress, nil, true, ""},
		{"no extended space", space(256, 6), DownstreamPort, nil, false, ""},
		{"conventional", set(space(256, 0), 0x50, 0x05, 0), NotExpress, nil, true, ""},
		{"a list below the header", set(space(256, 0), configCapabilities, 0x10), NotExpress, nil, true, ""},
		{"CardBus", set(set(space(256, 0), configHeaderType, 2), configCapsCardBus, 0x50), Endpoint, nil, false, ""},
		{"a virtual function", set(space(4096, 0), 0, 0xff, 0xff, 0xff, 0xff), Endpoint, nil, true, ""},
		{"a loop", set(space(256, 0), 0x50, 0x05, 0x40), PortUnknown, nil, false, "loop"},
		{"cut after the header", space(256, 0)[:0x48], PortUnknown, nil, false, "ends before"},
		{"cut in the header", space(256, 0)[:40], PortUnknown, nil, false, ""},
		{"empty", nil, PortUnknown, nil, false, ""},
		{"gone", ones, PortUnknown, nil, false, ""},
		{"gone at the first capability", set(space(256, 0), 0x40, 0xff, 0xff), PortUnknown, nil, false, ""},
		{"a loop of extended ones", set(extend(space(4096, 4), all[:2]...), 0x14a, 0x01, 0x10), RootPort, nil, false, "loop"},
		{"gone within the extended ones", set(extend(space(4096, 4), all...), 0x160, ones[:8]...), RootPort, nil, false, ""},
		{"gone at the access control", set(extend(space(4096, 4), all...), 0x164, ones[:4]...), RootPort, nil, false, ""},
		{"cut in the extended ones", extend(space(4096, 4), all...)[:0x162], RootPort, nil, false, ""},
	} {
		m := two().file(lone+"/config", string(c.b))
		whole, err := read(t, m)
		for how, topo := range map[string]*Topology{"at its places": whole, "as a stream": must(Read(streams{m}))} {
			d := topo.Devices[0]
			if d.Port != c.port || d.ACSKnown != c.known || !cmp.Equal(d.ACS, c.acs) {
				t.Errorf("%s, read %s: %v, access control %+v, known %v", c.name, how, d.Port, d.ACS, d.ACSKnown)
			}
		}
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
	}
}

func must(t *Topology, _ error) *Topology { return t }

func FuzzConfig(f *testing.F) {
	f.Add(space(64, 0), []byte(nil))
	f.Add(space(256, 4)[:0x60], []byte{1, 0, 1, 0x10, 0, 0, 0, 0})
	f.Add(set(space(256, 0), 0x50, 0x05, 0x40)[:0x60], []byte{0x0d, 0, 1, 0, 0x5f, 0, 0x1d, 0})
	f.Fuzz(func(t *testing.T, low, high []byte) {
		port, err := parsePort(low)
		if err != nil && port != PortUnknown {
			t.Errorf("%v, and %v", port, err)
		}
		if l, ok := expressLink(slices.Concat(low, make([]byte, max(0, configSize-len(low))))); l.Width < 0 || l.Width > 32 || l.MaxWidth > 32 ||
			l.Speed > 64 || l.MaxSpeed > 64 || !ok && l != (Link{}) {
			t.Errorf("%+v, %v", l, ok)
		}
		acs, known, err := parseACS(words(append(make([]byte, configSize), high...)))
		if (acs != nil || err != nil) && known != (acs != nil) {
			t.Errorf("%+v, known %v, %v", acs, known, err)
		}
	})
}

// streams is a root whose files cannot be read at a place.
type streams struct{ machine }

func (w streams) Open(name string) (fs.File, error) {
	f, err := w.machine.Open(name)
	if _, folder := f.(fs.ReadDirFile); err != nil || folder {
		return f, err
	}
	return stream{f}, nil
}

type stream struct{ fs.File }
