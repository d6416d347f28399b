package inventory

import (
	"context"
	"errors"

	"github.com/peerdirect/peerdirect/verbs/nldev"
)

// fromNetlink adds what the RDMA netlink tells; false is a device it does not
// know.
func (c *collector) fromNetlink(ctx context.Context, d *Device) bool {
	n, ok := c.listed[d.Name]
	if !ok {
		return false
	}
	d.Index = &n.Index
	d.NodeType = new(n.NodeType.String())
	d.PortCount = new(int(n.Ports))
	d.NodeGUID = new(n.NodeGUID.String())
	d.SystemGUID = new(n.SysImageGUID.String())
	d.Capabilities = flags(uint64(n.Caps), 8, deviceCaps(uint64(n.Caps)))
	d.Adaptive, d.ByUser = optional(n.AdaptiveModeration), optional(n.NamedByUser)
	if n.Protocol != "" {
		d.Protocol = &n.Protocol
	}
	if n.Firmware != "" {
		d.Firmware = &n.Firmware
	}
	if n.Type != 0 {
		d.Type = new(n.Type.String())
	}
	d.Parent = some(n.Parent)
	c.charDev(ctx, d)
	links, err := c.netlink.Links(ctx, d.Name)
	if err != nil {
		c.fail("netlink", d.Name, 0, err)
	}
	for _, l := range links {
		d.portOf(int(l.Port)).netlink(l)
		if l.Netdev != "" {
			n := d.netdev(l.Netdev)
			n.sysfs(c.root, new(error))
			n.Index, n.Port = new(int(l.NetdevIndex)), new(int(l.Port))
		}
	}
	c.resources(ctx, d)
	return true
}

// charDev takes the driver from what the kernel tells of the device's node, and
// the node itself where sysfs does not show it.
func (c *collector) charDev(ctx context.Context, d *Device) {
	node, err := c.netlink.CharDev(ctx, d.Name)
	if err != nil {
		if !errors.Is(err, nldev.ErrUnsupported) && !errors.Is(err, ErrNoDevice) {
			c.fail("netlink", d.Name, 0, err)
		}
		return
	}
	if d.CharDevice == nil {
		d.CharDevice, d.UverbsABI = new("/dev/infiniband/"+node.Name), new(int(node.ABI))
	}
	if module, ok := modules[node.Driver.String()]; ok {
		d.Driver, d.Module = new(node.Driver.String()), &module
	}
}

// modules are the kernel modules of drivers.
var modules = map[string]string{
	"mlx5": "mlx5_ib", "mlx4": "mlx4_ib", "cxgb3": "iw_cxgb3", "cxgb4": "iw_cxgb4", "mthca": "ib_mthca",
	"bnxt_re": "bnxt_re", "ocrdma": "ocrdma", "nes": "iw_nes", "irdma": "irdma", "vmw_pvrdma": "vmw_pvrdma",
	"qedr": "qedr", "hns": "hns_roce_hw_v2", "usnic": "usnic_verbs", "rxe": "rdma_rxe", "hfi1": "hfi1",
	"qib": "ib_qib", "efa": "efa", "siw": "siw", "erdma": "erdma", "mana": "mana_ib", "ionic": "ionic_rdma",
}

// ModuleOf is the kernel module of an RDMA driver, as a Device names the two; false
// is a driver that is not known.
func ModuleOf(driver string) (module string, ok bool) {
	module, ok = modules[driver]
	return module, ok
}

// optional is a value that the kernel may leave out.
func optional[T any](o nldev.Opt[T]) *T {
	if !o.OK {
		return nil
	}
	return &o.V
}

func (p *Port) netlink(l nldev.Link) {
	p.State = new(l.State.String())
	p.PhysicalState = new(l.PhysState.String())
	p.Netdev, p.NetdevIndex = nil, nil
	if l.Netdev != "" {
		p.Netdev, p.NetdevIndex = &l.Netdev, new(int(l.NetdevIndex))
	}
	if l.IB.OK {
		ib := l.IB.V
		p.LID, p.SMLID, p.LMC = hex(uint64(ib.LID), 4), hex(uint64(ib.SMLID), 4), new(int(ib.LMC))
		p.SubnetPrefix = new(ib.SubnetPrefix.String())
	}
}
