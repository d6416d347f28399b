package pci

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Overrides are an engineer's word on rails, which goes before distance.
type Overrides struct {
	entries []override
}

type override struct {
	line  int
	key   string // an accelerator, or ignore or also
	names []string
}

// OverrideError is a line of a file of overrides that cannot be followed.
type OverrideError struct {
	Line int
	Err  error
}

func (e *OverrideError) Error() string { return fmt.Sprintf("overrides, line %d: %v", e.Line, e.Err) }
func (e *OverrideError) Unwrap() error { return e.Err }

// ErrNoSuchDevice: the machine has no device of a name that overrides use.
var ErrNoSuchDevice = errors.New("no such device")

// Bounds of a file of overrides.
const (
	maxOverrideLine = 64 << 10 // bytes
	maxOverrides    = 10000    // lines that say something
)

// ParseOverrides reads a file of overrides, one to a line:
//
//	GPU0 = mlx5_0, mlx5_1     the rails of an accelerator, whatever the distance;
//	0000:53:00.0 =            none if nothing follows
//	ignore = mlx5_4           devices that take no part
//	also = eth4               NICs that do, whatever they are
//
// A device is named as Topology.Name does, by its address, or by any of its
// names. "#" starts a comment. The rails so named are not given to others.
func ParseOverrides(r io.Reader) (*Overrides, error) {
	o := &Overrides{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxOverrideLine)
	number := 0
	for lines.Scan() {
		number++
		text, _, _ := strings.Cut(lines.Text(), "#")
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		bad := func(format string, args ...any) (*Overrides, error) {
			return nil, &OverrideError{number, fmt.Errorf(format, args...)}
		}
		key, value, ok := strings.Cut(text, "=")
		key = strings.TrimSpace(key)
		if !ok || key == "" || len(strings.Fields(key)) != 1 || strings.Contains(value, "=") {
			return bad("%q is not NAME = NAME, NAME…", clip(text))
		}
		e := override{line: number, key: key}
		for _, name := range strings.FieldsFunc(value, func(c rune) bool { return c == ',' || c == ' ' || c == '\t' }) {
			if slices.Contains(e.names, name) {
				return bad("%s is named twice", clip(name))
			}
			e.names = append(e.names, name)
		}
		if (key == "ignore" || key == "also") && len(e.names) == 0 {
			return bad("%s names no device", key)
		}
		if len(o.entries) == maxOverrides {
			return bad("more than %d lines", maxOverrides)
		}
		o.entries = append(o.entries, e)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, &OverrideError{number + 1, fmt.Errorf("longer than %d bytes; this is no file of overrides", maxOverrideLine)}
	} else if err != nil {
		return nil, fmt.Errorf("read the overrides: %w", err)
	}
	return o, nil
}

// override finds the devices that overrides name.
func (p *pairer) override(o *Overrides) error {
	p.given, p.left, p.also, p.owned = map[*Device]given{}, map[*Device]int{}, map[*Device]bool{}, map[*Device]bool{}
	if o == nil || len(o.entries) == 0 {
		return nil
	}
	names := p.t.byName()
	for _, e := range o.entries {
		bad := func(err error) error { return &OverrideError{e.line, err} }
		var devices []*Device
		for _, name := range e.names {
			d, err := p.t.named(names, name)
			if err != nil {
				return bad(err)
			}
			if slices.Contains(devices, d) {
				return bad(fmt.Errorf("%s is named twice, by other names", d.Address))
			}
			devices = append(devices, d)
		}
		switch e.key {
		case "ignore":
			for _, d := range devices {
				p.left[d] = e.line
			}
		case "also":
			for _, d := range devices {
				if d.Kind == Accelerator || d.Kind == Bridge {
					return bad(fmt.Errorf("%s is no NIC but %s", p.t.Name(d), d.Kind))
				}
				p.also[d] = true
			}
		default:
			a, err := p.t.named(names, e.key)
			if err != nil {
				return bad(err)
			}
			if a.Kind != Accelerator {
				return bad(fmt.Errorf("%s is no accelerator but %s", p.t.Name(a), a.Kind))
			}
			if before, ok := p.given[a]; ok {
				return bad(fmt.Errorf("the rails of %s are named in line %d already", p.t.Name(a), before.line))
			}
			for _, d := range devices {
				if d.Kind == Accelerator || d.Kind == Bridge {
					return bad(fmt.Errorf("%s is no NIC but %s", p.t.Name(d), d.Kind))
				}
				p.owned[d] = true
			}
			slices.SortFunc(devices, func(a, b *Device) int { return a.Address.Compare(b.Address) })
			p.given[a] = given{devices, e.line}
		}
	}
	for _, e := range o.entries {
		for _, name := range append(slices.Clone(e.names), e.key) {
			if d, err := p.t.named(names, name); err == nil && p.left[d] != 0 && p.left[d] != e.line {
				return &OverrideError{e.line, fmt.Errorf("%s is left out by line %d", p.t.Name(d), p.left[d])}
			}
		}
	}
	for d := range p.also {
		if p.owned[d] {
			delete(p.also, d) // a rail by name is one already
		}
	}
	return nil
}

// byName lists the devices by each of their names; nil: several have it.
func (t *Topology) byName() map[string]*Device {
	names := map[string]*Device{}
	for _, d := range t.Devices {
		own := append(append([]string{t.Name(d)}, d.Net...), d.NVMe...)
		own = append(own, d.Dev...)
		for _, r := range d.RDMA {
			own = append(own, r.Name)
		}
		for _, name := range own {
			if other, taken := names[name]; taken && other != d {
				names[name] = nil
			} else {
				names[name] = d
			}
		}
	}
	return names
}

func (t *Topology) named(names map[string]*Device, name string) (*Device, error) {
	if a, err := ParseAddress(name); err == nil {
		if d := t.Device(a); d != nil {
			return d, nil
		}
		return nil, fmt.Errorf("%w: %s", ErrNoSuchDevice, clip(name))
	}
	d, known := names[name]
	switch {
	case d != nil:
		return d, nil
	case known:
		return nil, fmt.Errorf("several devices are called %s; give the address", clip(name))
	}
	return nil, fmt.Errorf("%w: %s; 'peerdirect topo' lists names and addresses", ErrNoSuchDevice, clip(name))
}
