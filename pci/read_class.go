package pci

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
)

// classes are the folders of /sys/class that name devices this package tells of.
// Those that only accelerators are in make their devices accelerators.
var classes = []struct {
	name        string
	accelerator bool
	plausible   func(class uint32) bool // where the class has no folder
}{
	{"infiniband", false, func(c uint32) bool { return c>>8 == 0x02 || c == classIBSerial }},
	{"net", false, func(c uint32) bool { return c>>8 == 0x02 }},
	{"nvme", false, func(c uint32) bool { return c == classNVMe }},
	{"drm", false, func(c uint32) bool { return c>>8 == 0x03 || c == classAccel }},
	{"accel", true, func(c uint32) bool { return c>>8 == 0x03 || c == classAccel }},
	{"ve", true, func(c uint32) bool { return c == classCoproc }},
	{"mic", true, func(c uint32) bool { return c == classCoproc }},
	{"neuron_device", true, nil},
	{"habanalabs", true, nil},
}

// class gives functions the names that /sys/class has for them. It may name
// functions that the bus does not list.
func (r *reader) class() {
	for _, c := range classes {
		dir := "sys/class/" + c.name
		entries, ok := r.list(dir)
		r.classes[c.name] = ok
		if len(entries) > 1 {
			r.enter(dir)
		}
		for _, e := range entries {
			d, p := r.hangsOn(dir, e.Name())
			if d == nil {
				continue
			}
			r.called(d, c.name, e.Name(), p)
			if c.accelerator {
				d.Kind = Accelerator
			}
		}
		r.leave()
	}
}

// hangsOn gives the function that an entry of a class belongs to and the entry's
// folder; nil if it is no function's.
func (r *reader) hangsOn(dir, name string) (*Device, string) {
	p := dir + "/" + name
	if target, ok := r.link(p); ok {
		p = resolve(dir, target)
		if strings.Contains(p, "/usb") {
			return nil, "" // the function is the controller, not the device
		}
		return r.place(p), p
	}
	// A copy without links: the folder itself, and perhaps where its device is.
	target, ok := r.link(p + "/device")
	if !ok {
		return nil, ""
	}
	a, ok := scanAddress(path.Base(target), 4)
	if !ok || r.at[a] == nil {
		if ok {
			r.fail("place", p, errors.New("its device is none of the bus: "+clip(target)))
		}
		return nil, ""
	}
	return r.at[a], p
}

// called adds a name to a function.
func (r *reader) called(d *Device, class, name, p string) {
	switch class {
	case "infiniband":
		d.RDMA = append(d.RDMA, RDMA{Name: name})
		r.rdmaAt[name] = p
		slices.SortFunc(d.RDMA, func(a, b RDMA) int { return byNumber(a.Name, b.Name) })
	case "net":
		d.Net = insert(d.Net, name)
	case "nvme":
		d.NVMe = insert(d.NVMe, name)
	case "drm":
		if !strings.Contains(name, "-") { // else a connector
			d.Dev = insert(d.Dev, "dri/"+name)
		}
	case "accel":
		d.Dev = insert(d.Dev, "accel/"+name)
	case "neuron_device":
		d.Dev = insert(d.Dev, name)
	case "habanalabs":
		if !strings.Contains(name, "controlD") {
			d.Dev = insert(d.Dev, name)
		}
	default:
		d.Dev = insert(d.Dev, name)
	}
}

func insert(names []string, name string) []string {
	names = append(names, name)
	slices.SortFunc(names, byNumber)
	return slices.Compact(names)
}

// byNumber puts mlx5_2 before mlx5_10.
func byNumber(a, b string) int {
	x, y := strings.TrimRight(a, "0123456789"), strings.TrimRight(b, "0123456789")
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// rdma reads a function's infiniband devices.
func (r *reader) rdma(d *Device) {
	for i := range d.RDMA {
		dev := &d.RDMA[i]
		p := r.rdmaAt[dev.Name]
		if !r.t.Outline {
			dev.NodeGUID, _ = r.text(p + "/node_guid")
		}
		entries, _ := r.list(p + "/ports")
		for _, e := range entries {
			if number, err := strconv.ParseUint(e.Name(), 10, 32); err == nil {
				dev.Ports = append(dev.Ports, r.port(int(number), p+"/ports/"+e.Name()))
			}
		}
		slices.SortFunc(dev.Ports, func(a, b RDMAPort) int { return cmp.Compare(a.Number, b.Number) })
	}
}

func (r *reader) port(number int, p string) RDMAPort {
	port := RDMAPort{Number: number}
	if state, ok := r.text(p + "/state"); ok {
		// "4: ACTIVE"
		_, word, found := strings.Cut(state, ":")
		if !found {
			word = state
		}
		port.State = strings.TrimSpace(word)
	}
	port.Rate, _ = r.text(p + "/rate")
	if !r.t.Outline {
		port.Layer, _ = r.text(p + "/link_layer")
	}
	return port
}

// unclassed looks below the functions for what classes without a folder would have
// named: captures leave folders out.
func (r *reader) unclassed() {
	for _, d := range r.t.Devices {
		class, dir := d.Class>>8, r.dirs[d]
		for _, c := range classes {
			if r.classes[c.name] || c.plausible == nil || !c.plausible(class) {
				continue
			}
			entries, _ := r.list(dir + "/" + c.name)
			for _, e := range entries {
				if e.IsDir() {
					r.called(d, c.name, e.Name(), dir+"/"+c.name+"/"+e.Name())
					if c.accelerator {
						d.Kind = Accelerator
					}
				}
			}
			if c.name == "infiniband" {
				r.rdma(d)
			}
		}
		switch {
		case d.Driver == "peerdirect_accel":
			entries, _ := r.list(dir + "/misc")
			for _, e := range entries {
				d.Dev = insert(d.Dev, e.Name())
			}
		case !r.t.Outline && d.Vendor == amd && (class>>8 == 0x03 || class == classAccel):
			if text, ok := r.text(dir + "/mem_info_vram_total"); ok {
				if v, err := strconv.ParseInt(text, 10, 64); err == nil && v > 0 {
					d.Memory = v
				}
			}
		}
	}
}

// nvidia reads which of /dev/nvidia* a function is: its driver has no class.
func (r *reader) nvidia() {
	const gpus = "proc/driver/nvidia/gpus"
	entries, _ := r.list(gpus)
	for _, e := range entries {
		a, ok := scanAddress(e.Name(), 4)
		d := r.at[a]
		if !ok || d == nil {
			continue
		}
		text, _ := r.text(gpus + "/" + e.Name() + "/information")
		for line := range strings.SplitSeq(text, "\n") {
			value, ok := strings.CutPrefix(line, "Device Minor:")
			if value = strings.TrimSpace(value); ok && value != "" && strings.Trim(value, "0123456789") == "" {
				d.Dev = insert(d.Dev, "nvidia"+value)
			}
		}
	}
}
