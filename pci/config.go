package pci

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Places and values in config space (PCI local bus specification 3.0, chapter 6;
// PCI Express base specification, chapter 7).
const (
	configHeader   = 64   // what is read without privilege
	configSize     = 256  // without PCI Express
	configExtended = 4096 // with it

	configStatus        = 0x06
	configRevision      = 0x08
	configHeaderType    = 0x0e
	configBAR0          = 0x10
	configCapabilities  = 0x34
	configCapsCardBus   = 0x14
	statusCapabilities  = 1 << 4
	headerBridge        = 1
	headerCardBus       = 2
	capabilityExpress   = 0x10
	extendedCapACS      = 0x0d
	maxCapabilities     = (configSize - configHeader) / 4
	maxExtendedCaps     = (configExtended - configSize) / 8
	expressCapabilities = 2 // of the PCI Express capability
)

// portTypes are the device and port types of the PCI Express capabilities register.
var portTypes = [16]Port{
	0: Endpoint, 1: LegacyEndpoint, 4: RootPort, 5: UpstreamPort, 6: DownstreamPort,
	7: ToPCI, 8: FromPCI, 9: IntegratedEndpoint, 10: EventCollector,
}

var errShort = errors.New("config space ends before its capabilities do")

// parsePort reads the port type out of a function's first 256 bytes. Of fewer bytes,
// as an unprivileged reader gets, it is unknown unless they tell that there is no
// list of capabilities.
func parsePort(b []byte) (Port, error) {
	if len(b) < configHeader || gone(b) {
		return PortUnknown, nil
	}
	if binary.LittleEndian.Uint16(b[configStatus:])&statusCapabilities == 0 {
		return NotExpress, nil
	}
	next := int(b[configCapabilities])
	if b[configHeaderType]&0x7f == headerCardBus {
		next = int(b[configCapsCardBus])
	}
	for n := 0; ; n++ {
		next &^= 3
		if next < configHeader {
			return NotExpress, nil
		}
		if n == maxCapabilities {
			return PortUnknown, fmt.Errorf("the list of capabilities has a loop, at %#x", next)
		}
		if next+4 > len(b) {
			if len(b) == configHeader {
				return PortUnknown, nil
			}
			return PortUnknown, errShort
		}
		switch b[next] {
		case capabilityExpress:
			return portTypes[b[next+expressCapabilities]>>4], nil
		case 0xff:
			return PortUnknown, nil // it no longer answers
		}
		next = int(b[next+1])
	}
}

// gone tells that nothing answered: every bit reads as one. A virtual function has
// ones as vendor and device only.
func gone(b []byte) bool {
	for _, c := range b[:16] {
		if c != 0xff {
			return false
		}
	}
	return true
}

// parseACS finds the access control services in the extended config space that read
// gives in double words; false: it cannot be read there. known tells whether all of
// the list was seen.
func parseACS(read func(offset int) (uint32, bool)) (acs *ACS, known bool, err error) {
	at := configSize
	for range maxExtendedCaps {
		header, ok := read(at)
		switch {
		case !ok || header == 0xffffffff && at != configSize:
			return nil, false, nil
		case header == 0 || header == 0xffffffff:
			// At the first place either says that there is none; further on a zero
			// is what a bridge leaves of a capability that it hides.
			return nil, true, nil
		}
		if header&0xffff == extendedCapACS {
			word, ok := read(at + 4)
			if !ok || word == 0xffffffff {
				return nil, false, nil
			}
			return &ACS{Capability: uint16(word), Control: uint16(word >> 16)}, true, nil
		}
		at = int(header>>20) &^ 3
		if at < configSize {
			return nil, true, nil
		}
	}
	return nil, false, fmt.Errorf("the list of extended capabilities has a loop, at %#x", at)
}

// registers is what config space told besides what is in the device. Zeros: it could
// not be read that far.
type registers struct {
	header   bool // the part that needs no privilege
	noBARs   bool // none of its base address registers is in use
	link     Link
	haveLink bool // link is what the kernel's files say
}

// config reads a device's config space: revision, port type, link and access
// control.
func (r *reader) config(d *Device, dir string) (found registers) {
	name := dir + "/config"
	file, done, ok := r.at4096(name)
	if !ok {
		return found
	}
	defer done()
	var first [configSize]byte
	n, err := file.ReadAt(first[:], 0)
	if n == 0 && err != nil && err != io.EOF {
		r.missed(name, err)
		return found
	}
	b := first[:n]
	if found.header = n >= configHeader && !gone(b); found.header {
		d.Revision = b[configRevision]
		found.noBARs = b[configHeaderType]&0x7f == headerBridge && allZero(b[configBAR0:configBAR0+8])
	}
	if d.Port, err = parsePort(b); err != nil {
		r.fail("read", name, err)
	}
	switch {
	case d.Port == PortUnknown:
		return found
	case d.Port == NotExpress:
		d.ACSKnown = true // the capability is PCI Express's
		return found
	case n < configSize:
		return found
	}
	found.link, found.haveLink = expressLink(b)
	if r.t.Outline {
		return found
	}
	// Each double word costs a cycle on the bus, so of 4,096 bytes only those are
	// read that are asked for.
	var word [4]byte
	d.ACS, d.ACSKnown, err = parseACS(func(offset int) (uint32, bool) {
		if n, _ := file.ReadAt(word[:], int64(offset)); n != len(word) {
			return 0, false
		}
		return binary.LittleEndian.Uint32(word[:]), true
	})
	if err != nil {
		r.fail("read", name, err)
	}
	return found
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// at4096 opens a file to read some of its bytes; false as bytes.
func (r *reader) at4096(name string) (file io.ReaderAt, done func() error, ok bool) {
	if in, ok := r.below(name); ok {
		file, closer, err := r.folder.At(in)
		if err != nil {
			r.missed(name, err)
			return nil, nil, false
		}
		return file, closer.Close, true
	}
	f, err := r.root.Open(name)
	if err != nil {
		r.missed(name, err)
		return nil, nil, false
	}
	if file, ok := f.(io.ReaderAt); ok {
		return file, f.Close, true
	}
	f.Close()
	b, ok := r.bytes(name, configExtended)
	return bytes.NewReader(bytes.Clone(b)), func() error { return nil }, ok
}

// words reads double words out of a whole config space.
func words(b []byte) func(offset int) (uint32, bool) {
	return func(offset int) (uint32, bool) {
		if offset+4 > len(b) {
			return 0, false
		}
		return binary.LittleEndian.Uint32(b[offset:]), true
	}
}
