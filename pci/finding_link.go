package pci

import (
	"fmt"
	"slices"
)

// bandwidth of a link in GB/s each way, after line coding (PCI Express base
// specification: 8b/10b to 5 GT/s, 128b/130b to 32 GT/s, flits of 242 bytes in 256
// above); 0 is unknown.
func bandwidth(speed float64, width int) float64 {
	if speed <= 0 || width <= 0 {
		return 0
	}
	coding := 128.0 / 130
	switch {
	case speed <= 5:
		coding = 0.8
	case speed > 32:
		coding = 242.0 / 256
	}
	return speed * float64(width) * coding / 8
}

// Bandwidth is what a link carries each way now, in GB/s; 0 is unknown.
func (l Link) Bandwidth() float64 {
	if b := bandwidth(l.Speed, l.Width); b > 0 {
		return b
	}
	return l.Carries
}

// MaxBandwidth is what it would carry at most.
func (l Link) MaxBandwidth() float64 { return bandwidth(l.MaxSpeed, l.MaxWidth) }

// absurd: a bridge's link this many times slower than one below it was never
// trained so; in a guest, where bridges are made up, the lesser number does.
const (
	absurd      = 8
	absurdGuest = 4
)

func (f *finder) links() {
	made := f.madeUp()
	for _, d := range f.t.Devices {
		if made[d] {
			continue
		}
		switch d.Kind {
		case Accelerator, RDMANIC, OtherNIC, NVMe:
			f.link(d, made)
		case Bridge:
			// The link of any other port is told by what is at its lower end.
			if d.Switch != nil && d.Switch.Upstream == d {
				f.link(d, made)
			}
		}
	}
}

// madeUp finds the bridges whose link cannot be as they say.
func (f *finder) madeUp() map[*Device]bool {
	below := map[*Device]*Device{} // bridge: the device with the fastest link below
	for _, d := range f.t.Devices {
		if d.Kind == Bridge || d.Link.Bandwidth() == 0 {
			continue
		}
		for up, n := d.Parent, 0; up != nil && n < deepest; up, n = up.Parent, n+1 {
			if b := below[up]; b == nil || b.Link.Bandwidth() < d.Link.Bandwidth() {
				below[up] = d
			}
		}
	}
	made := map[*Device]bool{}
	why := "a hypervisor made the bridge, and its speed up"
	if f.t.Platform.Virtual != Yes {
		why = "no such link is built; hypervisors make them up, and this may be a guest that does not show it"
	}
	for _, d := range f.t.Devices {
		fast, own := below[d], max(d.Link.Bandwidth(), d.Link.MaxBandwidth())
		if fast == nil || own == 0 {
			continue
		}
		times := fast.Link.Bandwidth() / own
		if times < absurdGuest || times < absurd && f.t.Platform.Virtual != Yes {
			continue
		}
		made[d] = true
		f.add(Finding{
			Code: FindingBridgeVirtual, Severity: Info,
			What: fmt.Sprintf("A bridge reports a link of %.3g GB/s above a device whose link runs at %.3g GB/s: %s.",
				own, fast.Link.Bandwidth(), why),
			Cost:   "None itself. Who takes the slowest link of a path for its bandwidth, as collective libraries do, chooses wrong rails and too few channels.",
			Remedy: "Take no bandwidth from this path but by measuring; give the collective library a topology file with the real speed (topo --nccl-xml, then correct it; NCCL_TOPO_FILE).",
		}, d)
	}
	return made
}

// link looks at a device's own link, and what the port above allows.
func (f *finder) link(d *Device, made map[*Device]bool) {
	l := d.Link
	slower := l.Speed > 0 && l.Speed < l.MaxSpeed
	narrower := l.Width > 0 && l.Width < l.MaxWidth
	if d.PF != nil || !slower && !narrower {
		return
	}
	// The port above may allow less than the device can.
	speed, width := l.MaxSpeed, l.MaxWidth
	if above := d.Parent; above != nil && !made[above] {
		if m := above.Link.MaxSpeed; m > 0 && (speed == 0 || m < speed) {
			speed = m
		}
		if m := above.Link.MaxWidth; m > 0 && (width == 0 || m < width) {
			width = m
		}
	}
	limits := fmt.Sprintf("The link runs at %s; the device can %s", transferRate(l.Speed, l.Width), transferRate(l.MaxSpeed, l.MaxWidth))
	cost := "Less bandwidth than the device was bought for."
	if now, most := l.Bandwidth(), l.MaxBandwidth(); now > 0 && most > 0 {
		cost = fmt.Sprintf("%.3g GB/s each way at most instead of %.3g.", now, most)
	}
	switch {
	case (!slower || l.Speed >= speed) && (!narrower || l.Width >= width):
		f.add(Finding{
			Code: FindingLinkSlot, Severity: Warning,
			What: limits + ", the port above no more.",
			Cost: cost, Remedy: "Move the card to a slot that has the speed and the lanes; a BIOS setting may hold the slot down (speed, bifurcation).",
		}, d)
	case slower && l.Speed < speed && (!narrower || l.Width >= width) && f.rests(d):
		f.add(Finding{
			Code: FindingLinkIdle, Severity: Info,
			What:   limits + ". All its lanes are up, and accelerators lower the speed at rest.",
			Cost:   "None if it is at rest; if it stays so under load, " + cost,
			Remedy: "Look again while it copies (for example nvidia-smi -q -d PCIE beside a bandwidth test). If it stays, reseat the card.",
		}, d)
	default:
		f.add(Finding{
			Code: FindingLinkSlow, Severity: Warning,
			What: limits + ", and the port above is not known to hold it down.",
			Cost: cost, Remedy: "Reseat the card or its riser, then look for receiver errors (AER in the kernel log); let the link train again by a cold start. Look for a speed or bifurcation setting in the BIOS.",
		}, d)
	}
}

// rests tells devices that lower their speed at rest: accelerators, and the
// upstream port on the same card.
func (f *finder) rests(d *Device) bool {
	if d.Kind == Accelerator {
		return true
	}
	if d.Kind != Bridge || len(d.Children) == 0 {
		return false
	}
	for todo, n := slices.Clone(d.Children), 0; len(todo) > 0; n++ {
		c := todo[len(todo)-1]
		todo = append(todo[:len(todo)-1], c.Children...)
		if c.Vendor != d.Vendor || n > len(f.t.Devices) {
			return false
		}
	}
	return d.Vendor != 0 && (d.Vendor == amd || d.Vendor == nvidia || d.Vendor == intel)
}

func transferRate(speed float64, width int) string {
	switch {
	case speed == 0:
		return fmt.Sprintf("x%d", width)
	case width == 0:
		return fmt.Sprintf("%g GT/s", speed)
	}
	return fmt.Sprintf("%g GT/s x%d", speed, width)
}
