package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"github.com/peerdirect/peerdirect/internal/inventory"
	"github.com/peerdirect/peerdirect/pci"
)

// active is the state of a port that can carry traffic.
const active = "ACTIVE"

// checkPorts tells which ports are up, and of others why not.
func checkPorts(ctx context.Context, s *System) []Finding {
	inv, _ := s.inventory(ctx)
	return s.eachPort(ctx, func(d *inventory.Device, p *inventory.Port) []Finding {
		file := fmt.Sprintf("%s/ports/%d/state", classFolder(d.Name), p.Number)
		if p.State == nil {
			return []Finding{s.missing(portName(d, p), file, fs.ErrNotExist)}
		}
		f := Finding{Subject: portName(d, p), Summary: "the port is active"}
		f.Evidence = []string{fmt.Sprintf("/%s: %s; phys_state %s, link_layer %s", file, *p.State, orUnknown(p.PhysicalState), orUnknown(p.LinkLayer))}
		if *p.State == active {
			// Some drivers keep a port active whose interface has lost its link (rxe of 6.1).
			if s.interfaceDown(&f, d, p) {
				f.Verdict = Warn
				if len(s.Devices) > 0 {
					f.Verdict = Fail
				}
				f.Summary += ", though the port is " + active
			}
			return []Finding{f}
		}
		s.portDown(&f, d, p)
		why := ""
		f.Verdict, why = s.downMatters(inv, d)
		f.Evidence = append(f.Evidence, why)
		if f.Verdict == Note {
			f.Commands = nil // nobody is said to want it up
		}
		return []Finding{f}
	})
}

func orUnknown(s *string) string {
	if s == nil {
		return "unknown"
	}
	return *s
}

// portDown says why a port does not carry traffic.
func (s *System) portDown(f *Finding, d *inventory.Device, p *inventory.Port) {
	state, phys := *p.State, value(p.PhysicalState)
	k := kindOf(d, p)
	switch {
	case state == "INIT" && k == kindInfiniBand:
		f.Summary = "the link is up and no subnet manager has set the port up (INIT)"
		f.Remedy = "start a subnet manager in the fabric (opensm on one node, or the switch's); if there is one, ask it why it leaves this port out (sminfo, ibdiagnet)"
		return
	case state == "ARMED" && k == kindInfiniBand:
		f.Summary = "the subnet manager has begun to set the port up and not ended (ARMED)"
		f.Remedy = "look into the subnet manager's log"
		return
	case k == kindEFA:
		f.Summary = "the device says that its link is " + state
		f.Remedy = "look at the instance's health; the kernel log has what the efa driver says"
		return
	}
	f.Summary = "the port is " + state
	switch phys {
	case "POLLING":
		f.Summary += ": it finds no partner (POLLING)"
		f.Remedy = "look at the cable and whether the switch's port is up"
	case "DISABLED":
		f.Summary += ": it is switched off (DISABLED)"
		f.Remedy = "switch it on"
	case "LINK_ERROR_RECOVERY":
		f.Summary += ": the link fails and is trained again and again (LINK_ERROR_RECOVERY)"
		f.Remedy = "replace the cable or the module, and look at the error counters of both ends"
	case "PORT_CONFIGURATION_TRAINING":
		f.Summary += ": the link is being trained"
		f.Remedy = "look again; if it stays, the two ends do not agree on speed or error correction"
	}
	s.interfaceDown(f, d, p)
}

// interfaceDown tells whether the interface of a port that is not InfiniBand's is
// down or without a link, and says so.
func (s *System) interfaceDown(f *Finding, d *inventory.Device, p *inventory.Port) bool {
	name := value(p.Netdev)
	if name == "" && len(d.Netdevs) == 1 {
		name = d.Netdevs[0].Name
	}
	if name == "" || kindOf(d, p) == kindInfiniBand {
		return false
	}
	up, carrier, state := s.netState(name)
	f.Evidence = append(f.Evidence, fmt.Sprintf("/sys/class/net/%s: operstate %s, flags up %s, carrier %s", name, state, up, carrier))
	switch {
	case up == pci.No:
		f.Summary = "its network interface is down"
		f.Remedy = "bring the interface up"
		f.Commands = []string{"ip link set " + quote(name) + " up"}
	case carrier == pci.No:
		f.Summary = "its network interface has no carrier"
		f.Remedy = "look at the cable, the module, and whether the switch's port is up ('ethtool " + name + "' tells what the NIC sees)"
	default:
		return false
	}
	return true
}

// netState reads whether an interface is meant to be up, and has a link.
func (s *System) netState(name string) (up, carrier pci.Tri, state string) {
	folder := "sys/class/net/" + name + "/"
	state, err := s.text(folder + "operstate")
	if err != nil {
		state = "unknown"
	}
	if text, err := s.text(folder + "flags"); err == nil {
		if flags, err := strconv.ParseUint(text, 0, 32); err == nil {
			up = pci.No
			if flags&1 != 0 { // IFF_UP
				up = pci.Yes
			}
		}
	}
	switch text, _ := s.text(folder + "carrier"); text { // of an interface that is down it cannot be read
	case "0":
		carrier = pci.No
	case "1":
		carrier = pci.Yes
	}
	return up, carrier, state
}

// isActive tells whether a device has a port that can carry traffic.
func isActive(d *inventory.Device) bool {
	return slices.ContainsFunc(d.Ports, func(p inventory.Port) bool { return value(p.State) == active })
}

// downMatters tells how bad it is that a port of a device is down, and why: cards
// have ports that nobody plugged, and machines cards that are no accelerator's.
func (s *System) downMatters(inv *inventory.Inventory, d *inventory.Device) (Verdict, string) {
	up := map[string]bool{}
	for i := range inv.Devices {
		if isActive(&inv.Devices[i]) {
			up[inv.Devices[i].Name] = true
		}
	}
	carries := func(f *pci.Device) bool {
		return slices.ContainsFunc(f.RDMA, func(r pci.RDMA) bool { return up[r.Name] })
	}
	if len(s.Devices) > 0 {
		return Fail, "it is asked about"
	}
	if len(up) == 0 {
		return Fail, "no RDMA device has an active port"
	}
	if up[d.Name] {
		return Note, "another port of the device is active"
	}
	own := s.function(d.Name)
	if own != nil && own.Card != nil && slices.ContainsFunc(own.Card.Functions, carries) {
		return Note, "another port of the card is active"
	}
	const nobody = "other devices are active, and it is no accelerator's rail"
	if own == nil {
		return Note, nobody
	}
	if a := s.wouldServe(own); a != nil {
		t, _ := s.Topology()
		return Warn, t.Name(a) + " is without it: it is of the kind of its rails, and as near"
	}
	return Note, nobody
}

// checkRates compares what ports run at.
func checkRates(ctx context.Context, s *System) []Finding {
	inv, _ := s.inventory(ctx)
	fastest := map[string]int{} // of equal devices
	for i := range inv.Devices {
		d := &inv.Devices[i]
		for j := range d.Ports {
			if p := &d.Ports[j]; value(p.State) == active && p.Rate != nil {
				fastest[model(d)] = max(fastest[model(d)], *p.Rate)
			}
		}
	}
	return s.eachPort(ctx, func(d *inventory.Device, p *inventory.Port) (found []Finding) {
		switch {
		case software(d) || p.State != nil && *p.State != active:
			return nil // it says what it likes; no link
		case p.Rate == nil:
			return []Finding{s.missing(portName(d, p), fmt.Sprintf("%s/ports/%d/rate", classFolder(d.Name), p.Number), fs.ErrNotExist)}
		}
		rate := gbps(*p.Rate)
		read := fmt.Sprintf("/%s/ports/%d/rate: %s", classFolder(d.Name), p.Number, rate)
		if p.Width != nil && p.SpeedName != nil {
			read += fmt.Sprintf(" (%dX %s)", *p.Width, *p.SpeedName)
		}
		if most := fastest[model(d)]; model(d) != "" && most > *p.Rate && p.State != nil {
			found = append(found, Finding{Subject: portName(d, p), Verdict: s.matters(d),
				Summary:  fmt.Sprintf("it runs at %s, others of its kind in this machine at %s", rate, gbps(most)),
				Evidence: []string{read, "devices of its kind: PCI " + model(d)},
				Remedy:   "look at the cable, the module and the switch's port: their speed, lanes and error correction"})
		}
		if kindOf(d, p) == kindInfiniBand && value(p.Width) == 1 {
			found = append(found, Finding{Subject: portName(d, p), Verdict: Warn,
				Summary:  "one lane of the link is up (1X); cables have two or four",
				Evidence: []string{read}, Remedy: "reseat or replace the cable"})
		}
		if own := s.function(d.Name); own != nil {
			if bus := own.Link.Bandwidth() * 8; bus > 0 && bus < float64(*p.Rate)/1000 {
				found = append(found, Finding{Subject: portName(d, p), Verdict: Note,
					Summary:  fmt.Sprintf("the port's %s stand behind a PCI Express link of %.4g Gb/s", rate, bus),
					Evidence: []string{read, fmt.Sprintf("/sys/bus/pci/devices/%s: %g GT/s x%d", own.Address, own.Link.Speed, own.Link.Width)}})
			}
		}
		if found == nil {
			found = []Finding{{Subject: portName(d, p), Summary: "it runs at " + rate, Evidence: []string{read}}}
		}
		return found
	})
}
