package capture

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/peerdirect/peerdirect/internal/kconfig"
)

// mask takes out what tells one machine from another of its kind. Equal values
// stay equal: two functions with one GUID are one card.
type mask struct {
	numbers map[string]int

	secret     *regexp.Regexp // files that name a thing by itself, whatever folder they are in
	secretLine *regexp.Regexp // "Serial : 0123", "GPU UUID: GPU-…"; serialize is a processor's instruction
	guidFile   *regexp.Regexp
	mac, uuid  *regexp.Regexp
	byNumber   *regexp.Regexp // names that udev and rdma-core make of a MAC or GUID: enx0123456789ab
}

func newMask() *mask {
	return &mask{
		numbers:    map[string]int{},
		secret:     regexp.MustCompile(`(?i)serial|uuid|unique_id|asset_tag|hostname|^(nguid|eui|wwid|vpd|cmdline|node_desc|phys_(switch|port)_id)$`),
		secretLine: regexp.MustCompile(`(?i)^[^:]*(serial|uuid)[^:]*:`),
		guidFile:   regexp.MustCompile(`(?i)guid$`),
		mac:        regexp.MustCompile(`(?i)\b[0-9a-f]{2}(:[0-9a-f]{2}){5,19}\b`),
		uuid:       regexp.MustCompile(`(?i)\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`),
		byNumber:   regexp.MustCompile(`^([a-z]+x)([0-9a-f]{12}|[0-9a-f]{16})(.*)$`),
	}
}

// number gives each value its own, from 1.
func (m *mask) number(kind, value string) int {
	key := kind + " " + strings.ToLower(value)
	n, ok := m.numbers[key]
	if !ok {
		m.numbers[kind]++
		n = m.numbers[kind]
		m.numbers[key] = n
	}
	return n
}

// path renames what is named by its MAC or GUID.
func (m *mask) path(p string) string {
	parts := strings.Split(p, "/")
	for i, part := range parts {
		if s := m.byNumber.FindStringSubmatch(part); s != nil {
			parts[i] = fmt.Sprintf("%s%0*x%s", s[1], len(s[2]), m.number(s[1], s[2]), s[3])
		}
	}
	return strings.Join(parts, "/")
}

// file gives what a capture holds of a file, which has as many bytes at most;
// false is nothing.
func (m *mask) file(plain string, data []byte) ([]byte, bool) {
	name := path.Base(plain)
	switch {
	case m.secret.MatchString(name), strings.Contains(plain, "/gids/"):
		return nil, false
	case name == "config":
		return withoutSerial(data), true
	case strings.HasPrefix(plain, "boot/config-"):
		return kconfig.Keep(data), true
	case plain == kconfig.Packed:
		return gzippedOptions(data)
	case m.guidFile.MatchString(name):
		return m.guid(data), true
	}
	return m.text(m.withoutLines(data)), true
}

func (m *mask) text(data []byte) []byte {
	data = m.uuid.ReplaceAllFunc(data, func(b []byte) []byte {
		return fmt.Appendf(nil, "00000000-0000-0000-0000-%012x", m.number("uuid", string(b)))
	})
	return m.mac.ReplaceAllFunc(data, func(b []byte) []byte {
		n := m.number("mac", string(b))
		return fmt.Appendf(nil, "02:00:00:%02x:%02x:%02x", byte(n>>16), byte(n>>8), byte(n))
	})
}

// guid replaces a GUID in the spelling of sysfs, 0123:4567:89ab:cdef; none, all
// zeros, stays.
func (m *mask) guid(data []byte) []byte {
	s := strings.TrimSpace(string(data))
	if strings.Trim(s, "0:") == "" {
		return data
	}
	n := m.number("guid", s)
	return fmt.Appendf(nil, "0200:0000:%04x:%04x\n", uint16(n>>16), uint16(n))
}

func (m *mask) withoutLines(data []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(data) {
		if !m.secretLine.Match(line) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// withoutSerial blanks the number in the device serial number capability of a
// config space (PCI Express base specification, device serial number extended
// capability).
func withoutSerial(config []byte) []byte {
	const serial = 0x0003
	out := bytes.Clone(config)
	seen := 0
	for at := 0x100; at >= 0x100 && at+4 <= len(out); {
		head := binary.LittleEndian.Uint32(out[at:])
		if head&0xffff == serial {
			clear(out[at+4 : min(at+12, len(out))])
		}
		// A chain may be a ring; one capability is four bytes at least.
		if seen++; seen > 1024 {
			break
		}
		at = int(head >> 20 &^ 3)
	}
	return out
}

// gzippedOptions is kconfig.Keep of a configuration as the kernel shows it; false
// if it is none.
func gzippedOptions(data []byte) ([]byte, bool) {
	config, err := kconfig.Unpack(data)
	if err != nil {
		return nil, false
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	w.Write(kconfig.Keep(config)) // into memory: it does not fail
	w.Close()
	return packed.Bytes(), true
}
