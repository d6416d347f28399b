package pci

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

const (
	sysDevices = "sys/devices"
	busDevices = "sys/bus/pci/devices"
)

// Folders visited in search of devices where the bus lists none; a real tree has
// some thousands.
const maxWalk = 100_000

// structure finds every function and its place. The bus lists them; its links say
// where each sits. Class entries may name others.
func (r *reader) structure() {
	entries, _ := r.list(busDevices)
	r.at, r.dirs = make(map[Address]*Device, len(entries)), make(map[*Device]string, len(entries))
	r.t.Devices = make([]*Device, 0, len(entries))
	r.enter(busDevices)
	targets := make([]string, len(entries))
	r.share(len(entries), func(r *reader, i int) { targets[i], _ = r.link(busDevices + "/" + entries[i].Name()) })
	r.leave()
	var lost []Address
	for i, e := range entries {
		name, target := busDevices+"/"+e.Name(), targets[i]
		a, ok := scanAddress(e.Name(), 4)
		if !ok {
			r.fail("place", name, errors.New("the name is no PCI address"))
			continue
		}
		if target != "" {
			if d := r.place(resolve(busDevices, target)); d != nil && d.Address == a {
				continue
			}
			r.fail("place", name, fmt.Errorf("the link leads to %q, where that function cannot be", clip(target)))
		}
		lost = append(lost, a)
	}
	if len(entries) == 0 || len(lost) > 0 {
		r.walk(sysDevices, 0, false)
	}
	for _, a := range lost {
		if r.at[a] == nil {
			d := r.add(a, busDevices+"/"+a.String())
			r.lost = append(r.lost, d)
		}
	}
	r.class()
}

// resolve gives the path that a link in a folder leads to.
func resolve(dir, target string) string {
	if strings.HasPrefix(target, "/") {
		return path.Clean(target)[1:]
	}
	// The kernel's begin with ../ and have no dots further on, nor what else needs
	// Join's attention: there are hundreds.
	for strings.HasPrefix(target, "../") && dir != "" {
		target = target[len("../"):]
		dir = dir[:max(strings.LastIndexByte(dir, '/'), 0)]
	}
	if dir == "" {
		return path.Clean(target)
	}
	return path.Join(dir, target)
}

// walk looks for functions in a folder without following links.
func (r *reader) walk(dir string, depth int, below bool) {
	if r.walked++; r.walked > maxWalk || depth > 300 {
		r.fail("list", dir, errors.New("there are too many folders"))
		return
	}
	entries, _ := r.list(dir)
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		name := e.Name()
		_, address := scanAddress(name, 4)
		_, _, bus := scanBus(name)
		p := dir + "/" + name
		switch {
		case address:
			if r.place(p) == nil {
				continue
			}
		case bus:
		case below, depth == 0 && (name == "system" || name == "virtual"):
			continue
		}
		r.walk(p, depth+1, below || address || bus)
	}
}

// place gives the function at a path or, of what hangs on a function, that
// function; those on the way are made, and their root. nil: there is none.
func (r *reader) place(p string) *Device {
	rest, ok := strings.CutPrefix(p, sysDevices+"/")
	if !ok {
		return nil
	}
	var root *Root
	var d *Device
	for end := len(p) - len(rest); end < len(p); end++ {
		start := end
		if i := strings.IndexByte(p[start:], '/'); i >= 0 {
			end = start + i
		} else {
			end = len(p)
		}
		part := p[start:end]
		if a, ok := scanAddress(part, 4); ok {
			if root == nil {
				root = r.rootAt(p[:start-1], a.Domain, a.Bus)
			}
			there := r.at[a]
			if there == nil {
				there = r.add(a, p[:end])
				there.Root, there.Parent = root, d
			} else if dir := r.dirs[there]; len(dir) != end || dir != p[:end] {
				r.fail("place", p[:end], fmt.Errorf("%s is at %s too", a, dir))
				return nil
			}
			d = there
		} else if domain, bus, ok := scanBus(part); ok {
			// Some controllers are a root complex below a function.
			root, d = r.rootAt(p[:end], domain, bus), nil
		} else if d != nil {
			break
		}
	}
	return d
}

func (r *reader) add(a Address, dir string) *Device {
	d := &Device{Address: a, Group: -1}
	r.at[a], r.dirs[d] = d, dir
	r.t.Devices = append(r.t.Devices, d)
	return d
}

// rootAt gives the root complex whose bus is the folder.
func (r *reader) rootAt(p string, domain uint32, bus uint8) *Root {
	root := r.rootsAt[p]
	if root == nil {
		root = &Root{
			Name: fmt.Sprintf("pci%04x:%02x", domain, bus), Domain: domain, Bus: bus,
			Path: strings.TrimPrefix(strings.TrimPrefix(p, sysDevices), "/"),
		}
		r.rootsAt[p] = root
		r.t.Roots = append(r.t.Roots, root)
	}
	return root
}

// adopt finds a place for functions whose entries told none: below the bridge that
// leads to their bus or, if no bridge does, on a root bus.
func (r *reader) adopt() {
	if len(r.lost) == 0 {
		return
	}
	type bus struct {
		domain uint32
		number uint8
	}
	bridges := map[bus]*Device{}
	for _, d := range r.t.Devices {
		if d.Class>>8 != classBridge {
			continue
		}
		var number int
		text, ok := r.text(r.dirs[d] + "/secondary_bus_number")
		// A bridge leads to a higher bus, so no circle can come of it.
		if _, err := fmt.Sscan(text, &number); ok && err == nil && number > int(d.Address.Bus) && number < 256 {
			bridges[bus{d.Address.Domain, uint8(number)}] = d
		}
	}
	for _, d := range r.lost {
		d.Parent = bridges[bus{d.Address.Domain, d.Address.Bus}]
	}
	for _, d := range r.lost {
		top := d
		for top.Parent != nil && top.Root == nil {
			top = top.Parent
		}
		if top.Root == nil {
			top.Root = r.rootOf(top.Address)
		}
		d.Root = top.Root
	}
}

// rootOf gives the root complex of that bus, a new one if there is none.
func (r *reader) rootOf(a Address) *Root {
	for _, root := range r.t.Roots {
		if root.Domain == a.Domain && root.Bus == a.Bus {
			return root
		}
	}
	root := &Root{Name: fmt.Sprintf("pci%04x:%02x", a.Domain, a.Bus), Domain: a.Domain, Bus: a.Bus}
	r.t.Roots = append(r.t.Roots, root)
	return root
}

// slots labels the functions that sit in a physical slot.
func (r *reader) slots() {
	const slots = "sys/bus/pci/slots"
	entries, _ := r.list(slots)
	for _, e := range entries {
		text, ok := r.text(slots + "/" + e.Name() + "/address")
		if !ok {
			continue
		}
		a, ok := scanAddress(text+".0", 4)
		if !ok {
			r.fail("read", slots+"/"+e.Name()+"/address", fmt.Errorf("%q is no slot's address", clip(text)))
			continue
		}
		for ; a.Function < 8; a.Function++ {
			if d := r.at[a]; d != nil {
				d.Slot = e.Name()
			}
		}
	}
}

// exists tells whether anything is there.
func (r *reader) exists(name string) bool {
	_, err := fs.Stat(r.root, name)
	return err == nil
}
