package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
)

func contains(list []string, x string) bool { return slices.Contains(list, x) }

func listed(names []string) string { return strings.Join(names, ", ") }

// sentence is a finding's text as a summary: without its last stop, and in lower
// case but where it begins with a name.
func sentence(text string) string {
	text = strings.TrimSuffix(text, ".")
	if len(text) > 1 && text[0] >= 'A' && text[0] <= 'Z' && (text[1] >= 'a' && text[1] <= 'z' || text[1] == ' ') {
		text = strings.ToLower(text[:1]) + text[1:]
	}
	return text
}

// label is a device's name, with its address where that is another.
func label(t *pci.Topology, d *pci.Device) string {
	if name := t.Name(d); name != d.Address.String() {
		return name + " (" + d.Address.String() + ")"
	}
	return d.Address.String()
}

// accelerators are the machine's, and its topology; nil without any.
func (s *System) accelerators() (*pci.Topology, []*pci.Device) {
	t, _ := s.Topology()
	if t == nil {
		return nil, nil
	}
	return t, t.Of(pci.Accelerator)
}

// endpoints are accelerators and RDMA NICs.
func (s *System) endpoints() (*pci.Topology, []*pci.Device) {
	t, all := s.accelerators()
	if t == nil {
		return nil, nil
	}
	return t, append(slices.Clip(all), t.Of(pci.RDMANIC)...)
}

// deviceFile is a file of a PCI function in the system.
func deviceFile(d *pci.Device, name string) string {
	return "sys/bus/pci/devices/" + d.Address.String() + "/" + name
}

// checkAccelerators tells which accelerators there are, and who drives them.
func checkAccelerators(_ context.Context, s *System) (found []Finding) {
	t, all := s.accelerators()
	if t == nil {
		_, err := s.Topology()
		f := s.missing("", "sys/bus/pci/devices", fs.ErrNotExist)
		if s.Live {
			f = Finding{Verdict: Note, Summary: "there is no PCI device, so no accelerator and no hardware NIC", Evidence: []string{fmt.Sprint(err)}}
		}
		return []Finding{f}
	}
	if len(all) == 0 {
		return []Finding{{Verdict: Note, Summary: "there is no accelerator: host memory is all that can be moved here",
			Evidence: []string{fmt.Sprintf("/sys/bus/pci/devices: %s, none of an accelerator's class or identity", count(len(t.Devices), "function"))}}}
	}
	tells := s.Live || slices.ContainsFunc(t.Devices, func(d *pci.Device) bool { return d.Driver != "" })
	for _, d := range all {
		f := Finding{Subject: label(t, d), Summary: "driver " + d.Driver,
			Evidence: []string{fmt.Sprintf("/%s: %s; %04x:%04x, class %06x", deviceFile(d, "driver"), cmpOr(d.Driver, "none"), d.Vendor, d.Product, d.Class)}}
		switch {
		case d.Driver == "" && !tells:
			f = s.missing(label(t, d), deviceFile(d, "driver"), fs.ErrNotExist)
		case d.Driver == "":
			f.Verdict, f.Summary = Warn, "no driver is bound to it: nothing exports its memory"
			f.Remedy = "install and load its driver; the kernel's log says why if it did not take the device"
			f.Commands = []string{"modprobe -v \"$(cat /" + deviceFile(d, "modalias") + ")\""}
			if d.Vendor == nvidia { // by its alias that loads nouveau, where NVIDIA's is not installed
				f.Remedy = "install NVIDIA's open kernel modules (nouveau exports nothing), or load them ('modprobe nvidia'); the kernel's log says why if they did not take the device"
				f.Commands = nil
			}
		case d.Driver == "nouveau":
			f.Verdict, f.Summary = Warn, "nouveau drives it, which gives no memory to NICs"
			f.Remedy = "install NVIDIA's driver, whose packages keep nouveau away, and start anew"
		case d.Driver == "vfio-pci" || strings.HasPrefix(d.Driver, "uio"):
			f.Verdict, f.Summary = Note, "its memory is for whom "+d.Driver+" gave it to: a guest, or a program"
		}
		found = append(found, f)
	}
	return alike(found)
}

// checkBARs tells whether NICs reach all memory of accelerators.
func checkBARs(_ context.Context, s *System) (found []Finding) {
	t, all := s.accelerators()
	found = s.fromTopology(pci.FindingBARSmall)
	if len(found) > 0 {
		return found
	}
	for _, d := range all {
		var bar uint64
		for _, b := range d.BARs {
			if b.Memory {
				bar = max(bar, b.Size)
			}
		}
		file := deviceFile(d, "resource")
		if there, _ := s.exists(file); !there {
			found = append(found, s.missing(label(t, d), file, fs.ErrNotExist))
			continue
		}
		f := Finding{Subject: label(t, d), Summary: "its largest BAR has " + bytesText(bar),
			Evidence: []string{fmt.Sprintf("/%s: largest memory BAR %d bytes", file, bar)}}
		switch {
		case bar == 0:
			f.Verdict, f.Summary = Warn, "it has no memory BAR: nothing reaches its memory over the bus"
			f.Remedy = "the kernel log tells of BARs that found no place ('no space for', 'failed to assign'): turn on Above 4G Decoding in the BIOS, or boot with pci=realloc"
		case d.Memory > 0:
			f.Summary += " and it has " + bytesText(uint64(d.Memory)) + " of memory"
		default:
			f.Evidence = append(f.Evidence, "how much memory it has is not in files")
		}
		found = append(found, f)
	}
	return alike(found)
}

// checkLinks tells of links that run below what they can.
func checkLinks(_ context.Context, s *System) (found []Finding) {
	t, all := s.endpoints()
	said := map[string]bool{}
	for _, f := range s.fromTopology(pci.FindingLinkSlow, pci.FindingLinkSlot, pci.FindingLinkIdle, pci.FindingBridgeVirtual) {
		found = append(found, f)
		for _, d := range all {
			if strings.Contains(f.Subject+strings.Join(f.Evidence, " "), d.Address.String()) {
				said[d.Address.String()] = true
			}
		}
	}
	for _, d := range all {
		l := d.Link
		switch {
		case said[d.Address.String()] || d.PF != nil || d.Port == pci.IntegratedEndpoint:
			continue // told above; or without a link of its own
		case l.Speed == 0 || l.Width == 0:
			f := s.missing(label(t, d), deviceFile(d, "current_link_speed"), fs.ErrNotExist)
			if there, _ := s.exists(deviceFile(d, "current_link_speed")); there || s.Live {
				f = Finding{Subject: label(t, d), Verdict: Note, Summary: "its link tells no speed or width, as devices do that a hypervisor or an emulator makes",
					Evidence: []string{"/" + deviceFile(d, "current_link_speed"), "/" + deviceFile(d, "current_link_width")}}
			}
			found = append(found, f)
		default:
			found = append(found, Finding{Subject: label(t, d), Summary: fmt.Sprintf("its link runs at %g GT/s x%d, all it can", l.Speed, l.Width),
				Evidence: []string{fmt.Sprintf("/%s and max_link_speed, link_width: %.4g of %.4g GB/s each way", deviceFile(d, "current_link_speed"), l.Bandwidth(), l.MaxBandwidth())}})
		}
	}
	return alike(found)
}
