package pci

import (
	"strings"
	"testing"
)

// peers is a machine of two root complexes. Below the first: a switch with an
// accelerator and a NIC, and beside it another NIC on its own root port; below the
// second one more.
type peers struct {
	*Topology
	bridge, port, up, down1, down2, gpu, near, beside, far, vf *Device
}

func newPeers() *peers {
	p := &peers{Topology: &Topology{Platform: Platform{Arch: "x86_64", CPU: "GenuineIntel", Family: 6, Kernel: "7.3.4"}}}
	one, two := &Root{Name: "pci0000:00", Path: "pci0000:00"}, &Root{Name: "pci0000:80", Path: "pci0000:80", Bus: 0x80}
	p.Roots = []*Root{one, two}
	add := func(root *Root, at string, parent *Device, port Port) *Device {
		a, err := ParseAddress(at)
		if err != nil {
			panic(err)
		}
		d := &Device{Address: a, Root: root, Parent: parent, Port: port, Vendor: 0x8086, Product: 0x1234, Group: -1, ACSKnown: true}
		p.Devices = append(p.Devices, d)
		return d
	}
	p.bridge = add(one, "00:00.0", nil, NotExpress)
	p.port = add(one, "00:01.0", nil, RootPort)
	p.up = add(one, "01:00.0", p.port, UpstreamPort)
	p.down1 = add(one, "02:00.0", p.up, DownstreamPort)
	p.down2 = add(one, "02:01.0", p.up, DownstreamPort)
	p.gpu = add(one, "03:00.0", p.down1, Endpoint)
	p.near = add(one, "04:00.0", p.down2, Endpoint)
	p.vf = add(one, "04:00.1", p.down2, Endpoint)
	p.vf.PF = p.near
	p.beside = add(one, "05:00.0", add(one, "00:02.0", nil, RootPort), Endpoint)
	p.far = add(two, "81:00.0", add(two, "80:02.0", nil, RootPort), Endpoint)
	Assemble(p.Topology)
	return p
}

// second is what stands for the other root complex.
func (p *peers) second() *Device { return p.far.Parent }

func (p *peers) redirect(d *Device, control uint16) { d.ACS = &ACS{Capability: 0xff, Control: control} }

func TestPeerToPeer(t *testing.T) {
	listed := func(p *peers) { p.bridge.Product, p.second().Product = 0x2020, 0x2030 }
	for _, c := range []struct {
		name    string
		make    func(p *peers) (a, b *Device)
		allowed Tri
		through Way
		why     string
	}{
		{"below one switch", func(p *peers) (a, b *Device) { return p.gpu, p.near }, Yes, WayBridge, "bridge 0000:01:00.0"},
		{"of a virtual function", func(p *peers) (a, b *Device) { return p.gpu, p.vf }, Yes, WayBridge, "bridge 0000:01:00.0"},
		{"of one and the same", func(p *peers) (a, b *Device) { return p.gpu, p.gpu }, Yes, WayFunction, "one function"},
		{"source validation alone", func(p *peers) (a, b *Device) {
			p.redirect(p.down1, ACSSourceValidation|ACSUpstreamForward)
			return p.gpu, p.near
		}, Yes, WayBridge, "nothing on the path redirects"},
		{"requests redirected", func(p *peers) (a, b *Device) {
			p.redirect(p.down2, ACSRequestRedirect)
			return p.gpu, p.near
		}, No, WayHostBridge, "redirects to the root at 0000:02:01.0, and host bridge 0000:00:00.0 (8086:1234) is not"},
		{"completions redirected, the root trusted", func(p *peers) (a, b *Device) {
			listed(p)
			p.redirect(p.down1, ACSCompletionRedirect)
			return p.gpu, p.near
		}, Yes, WayHostBridge, "(8086:2020) is on the kernel's list"},
		{"egress control at the bridge that is above both", func(p *peers) (a, b *Device) {
			p.redirect(p.up, ACSEgressControl)
			return p.gpu, p.near
		}, No, WayHostBridge, "0000:01:00.0"},
		{"redirected above the bridge that is above both", func(p *peers) (a, b *Device) {
			p.redirect(p.port, ACSRequestRedirect)
			return p.gpu, p.near
		}, Yes, WayBridge, ""},
		{"access control unread", func(p *peers) (a, b *Device) {
			p.down1.ACSKnown = false
			return p.gpu, p.near
		}, Unknown, WayUnknown, "could not be read at 0000:02:00.0"},
		{"access control unread, the root trusted", func(p *peers) (a, b *Device) {
			listed(p)
			p.down1.ACSKnown = false
			return p.gpu, p.near
		}, Yes, WayUnknown, "either way"},
		{"two root ports", func(p *peers) (a, b *Device) { return p.gpu, p.beside }, No, WayHostBridge, "no bridge is above both"},
		{"two root ports of AMD", func(p *peers) (a, b *Device) {
			p.Platform.CPU, p.Platform.Family = "AuthenticAMD", 0x19
			return p.gpu, p.far
		}, Yes, WayHostBridge, "family 17h"},
		{"two root ports of an AMD before", func(p *peers) (a, b *Device) {
			p.Platform.CPU, p.Platform.Family = "AuthenticAMD", 0x15
			return p.gpu, p.beside
		}, No, WayHostBridge, ""},
		{"a processor that is unknown", func(p *peers) (a, b *Device) {
			p.Platform.CPU = ""
			return p.gpu, p.beside
		}, Unknown, WayHostBridge, "processor is unknown"},
		{"two trusted roots", func(p *peers) (a, b *Device) { listed(p); return p.gpu, p.far }, Yes, WayHostBridge, ""},
		{"one of two trusted", func(p *peers) (a, b *Device) {
			p.bridge.Product = 0x2020
			return p.gpu, p.far
		}, No, WayHostBridge, "0000:80:02.0"},
		{"a root trusted for its own", func(p *peers) (a, b *Device) { p.bridge.Product = 0x3c00; return p.gpu, p.beside }, Yes, WayHostBridge, ""},
		{"and with another", func(p *peers) (a, b *Device) {
			listed(p)
			p.bridge.Product = 0x3c00
			return p.gpu, p.far
		}, No, WayHostBridge, "only for devices below one"},
		{"a first function that is no port", func(p *peers) (a, b *Device) {
			listed(p)
			p.second().Port = NotExpress
			return p.gpu, p.far
		}, No, WayHostBridge, "neither at 00.0 nor a root port"},
		{"a first function of an unknown type", func(p *peers) (a, b *Device) {
			listed(p)
			p.second().Port = PortUnknown
			return p.gpu, p.far
		}, Unknown, WayHostBridge, "may be no root port"},
		{"a bridge that 6.12 did not know", func(p *peers) (a, b *Device) {
			p.bridge.Product, p.Platform.Kernel = 0x0b25, "6.12.117+deb13-amd64"
			return p.gpu, p.beside
		}, No, WayHostBridge, "of Linux 7.3, not of this kernel"},
		{"a bridge that this kernel may know", func(p *peers) (a, b *Device) {
			p.bridge.Product, p.Platform.Kernel = 0x0b25, "6.15.1"
			return p.gpu, p.beside
		}, Unknown, WayHostBridge, "which this kernel has is unknown"},
		{"a bridge that 7.3 knows", func(p *peers) (a, b *Device) { p.bridge.Product = 0x0b25; return p.gpu, p.beside }, Yes, WayHostBridge, ""},
		{"any bridge of a vendor", func(p *peers) (a, b *Device) { p.bridge.Vendor = 0x1ae0; return p.gpu, p.beside }, Yes, WayHostBridge, ""},
		{"a source that does not tell of host bridges", func(p *peers) (a, b *Device) {
			p.Roots[0].Path = ""
			return p.gpu, p.beside
		}, Unknown, WayHostBridge, "not told"},
		{"no roots", func(p *peers) (a, b *Device) {
			p.gpu.Root, p.far.Root = nil, nil
			return p.gpu, p.far
		}, Unknown, WayHostBridge, "unknown"},
		{"a tree that loops", func(p *peers) (a, b *Device) {
			p.port.Parent = p.down1
			return p.gpu, p.far
		}, No, WayHostBridge, ""},
		{"nothing", func(p *peers) (a, b *Device) { return nil, p.far }, Unknown, WayUnknown, "no two devices"},
	} {
		p := newPeers()
		a, b := c.make(p)
		for _, got := range []P2P{p.P2P(a, b), p.P2P(b, a)} {
			if got.Allowed != c.allowed || got.Through != c.through || !strings.Contains(got.Reason, c.why) {
				t.Errorf("%s: %v through %q, %s; want %v through %q, %s", c.name, got.Allowed, got.Through, got.Reason, c.allowed, c.through, c.why)
			}
			if strings.HasSuffix(got.Reason, ".") || got.Reason == "" {
				t.Errorf("%s: the reason reads %q", c.name, got.Reason)
			}
		}
	}
}

func TestPeerToPeerNamesWhatRedirects(t *testing.T) {
	p := newPeers()
	p.redirect(p.down1, ACSRequestRedirect)
	p.redirect(p.down2, ACSCompletionRedirect)
	got := p.P2P(p.gpu, p.near)
	if len(got.Redirects) != 2 || got.Redirects[0] != p.down1 || got.Redirects[1] != p.down2 || got.Bridge != p.up {
		t.Errorf("%+v", got)
	}
}
