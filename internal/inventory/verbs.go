package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/netip"
	"os"
	"strings"

	"github.com/peerdirect/peerdirect/verbs"
)

func deviceCaps(v uint64) string { return verbs.DeviceCaps(v).String() }

// fromVerbs adds what libibverbs tells, for which it opens the device.
func (c *collector) fromVerbs(d *Device, info verbs.DeviceInfo) {
	d.Transport = new(info.Transport.String())
	d.NodeGUID = new(info.GUID.String())
	d.CharDevice = &info.CharDev
	dev, err := verbs.Open(d.Name)
	if err != nil {
		c.fail("verbs", d.Name, 0, unopened(info.CharDev, err))
		return
	}
	defer func() {
		if err := dev.Close(); err != nil {
			c.fail("verbs", d.Name, 0, err)
		}
	}()
	d.Vectors = new(dev.Vectors())
	if a, err := dev.Attr(); err != nil {
		c.fail("verbs", d.Name, 0, err)
	} else {
		d.attr(&a)
	}
	for n := 1; d.PortCount != nil && n <= *d.PortCount; n++ {
		if err := d.portOf(n).verbs(dev); err != nil {
			c.fail("verbs", d.Name, n, err)
		}
	}
	if imports, err := importsDMABuf(dev); err != nil {
		c.fail("verbs", d.Name, 0, err)
	} else {
		d.DMABuf = &imports
	}
}

// unopened finds out why a device could not be opened: libibverbs looks for the
// file elsewhere when it may not open it, and says that it found none.
func unopened(file string, err error) error {
	f, why := os.OpenFile(file, os.O_RDWR, 0)
	switch {
	case why == nil:
		f.Close()
	case errors.Is(why, fs.ErrPermission):
		mode := ""
		if info, err := os.Stat(file); err == nil {
			mode = fmt.Sprintf(" (mode %v)", info.Mode().Perm())
		}
		return fmt.Errorf("%w%s: its limits and dma-buf support are unknown; run as root, or let your group open the file", why, mode)
	case errors.Is(why, fs.ErrNotExist):
		return fmt.Errorf("%w: its limits and dma-buf support are unknown; give the container that file, or let udev make it", why)
	}
	return err
}

func importsDMABuf(dev *verbs.Device) (bool, error) {
	if !verbs.HasFunction("ibv_reg_dmabuf_mr") {
		return false, errors.New("whether dma-bufs are imported is unknown: the libibverbs that is loaded cannot register them")
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return false, err
	}
	imports, err := pd.ImportsDMABuf()
	return imports, errors.Join(err, pd.Close())
}

func (d *Device) attr(a *verbs.DeviceAttr) {
	if a.FirmwareVersion != "" {
		d.Firmware = &a.FirmwareVersion
	}
	d.NodeGUID, d.SystemGUID = new(a.NodeGUID.String()), new(a.SysImageGUID.String())
	d.VendorID, d.PartID, d.Hardware = hex(uint64(a.VendorID), 4), &a.VendorPartID, hex(uint64(a.HardwareVersion), 1)
	d.PortCount = &a.Ports
	d.Capabilities = flags(uint64(a.Caps), 8, a.Caps.String())
	pages := &Flags{Value: Hex{a.PageSizeCap, 8}, Names: []string{}}
	for _, size := range a.PageSizes() {
		pages.Names = append(pages.Names, roundBytes(size, ""))
	}
	d.Limits = &Limits{
		MaxMRSize: a.MaxMRSize, PageSizes: *pages, AtomicCap: a.AtomicCap.String(),
		MaxQP: a.MaxQP, MaxQPWR: a.MaxQPWR, MaxSGE: a.MaxSGE, MaxSGERead: a.MaxSGERead,
		MaxCQ: a.MaxCQ, MaxCQE: a.MaxCQE, MaxMR: a.MaxMR, MaxPD: a.MaxPD, MaxMW: a.MaxMW, MaxAH: a.MaxAH,
		MaxSRQ: a.MaxSRQ, MaxSRQWR: a.MaxSRQWR, MaxSRQSGE: a.MaxSRQSGE, MaxPKeys: a.MaxPKeys,
		MaxQPReadAtomic: a.MaxQPReadAtomic, MaxQPInitReadAtomic: a.MaxQPInitReadAtomic, MaxResReadAtomic: a.MaxResReadAtomic,
		MaxEEReadAtomic: a.MaxEEReadAtomic, MaxEEInitReadAtomic: a.MaxEEInitReadAtomic, MaxEE: a.MaxEE, MaxRDD: a.MaxRDD,
		MaxRawIPv6QP: a.MaxRawIPv6QP, MaxRawEthernetQP: a.MaxRawEthernetQP,
		MaxMulticastGroups: a.MaxMulticastGroups, MaxMulticastQPs: a.MaxMulticastQPs, MaxTotalMulticastQPs: a.MaxTotalMulticastQPs,
		MaxFMR: a.MaxFMR, MaxMapPerFMR: a.MaxMapPerFMR,
		LocalAckDelay: int(a.LocalAckDelay), LocalAckDelayTime: math.Ldexp(4.096, int(a.LocalAckDelay)),
	}
	if !a.Extended {
		return
	}
	d.Limits.MaxWQ, d.Limits.MaxDMSize = &a.MaxWQ, &a.MaxDMSize
	d.Limits.MaxModerationCount, d.Limits.MaxModerationPeriod = new(int(a.MaxModerationCount)), new(int(a.MaxModerationPeriod))
	odp := func(o verbs.ODPOps) Flags { return *flags(uint64(o), 1, o.String()) }
	types := func(t verbs.QPTypes) Flags { return *flags(uint64(t), 1, t.String()) }
	d.ODP = &ODP{
		Supported: a.ODP.Supported, Implicit: a.ODP.Implicit,
		RC: odp(a.ODP.RC), UC: odp(a.ODP.UC), UD: odp(a.ODP.UD), XRC: odp(a.ODP.XRC),
	}
	d.Clock = &Clock{TimestampMask: Hex{a.TimestampMask, 1}, CoreKHz: a.CoreClockKHz}
	d.Offloads = &Offloads{
		TSOMax: a.TSO.MaxPayload, TSOQPTypes: types(a.TSO.QPTypes),
		RSSTables: a.RSS.MaxTables, RSSTableSize: a.RSS.MaxTableSize, RSSQPTypes: types(a.RSS.QPTypes),
		RSSFunctions: Hex{uint64(a.RSS.HashFunctions), 1}, RSSFields: Hex{uint64(a.RSS.HashFields), 1},
		PacingMin: a.PacketPacing.Min, PacingMax: a.PacketPacing.Max, PacingQPTypes: types(a.PacketPacing.QPTypes),
		RawPacketFlags: *flags(uint64(a.RawPacket), 1, a.RawPacket.String()),
	}
	d.TagMatching = &TagMatching{
		MaxTags: a.TagMatching.MaxTags, MaxRendezvousHeader: a.TagMatching.MaxRendezvousHeader,
		MaxOps: a.TagMatching.MaxOps, MaxSGE: a.TagMatching.MaxSGE, Flags: Hex{uint64(a.TagMatching.Flags), 1},
	}
	d.PCIAtomics = &PCIAtomics{
		FetchAdd: atomicSizes(a.PCIAtomicFetchAdd), Swap: atomicSizes(a.PCIAtomicSwap), CompareSwap: atomicSizes(a.PCIAtomicCompareSwap),
	}
}

// atomicSizes reads the bits 4, 8 and 16 bytes of enum ibv_pci_atomic_op_size.
func atomicSizes(bits uint16) []int {
	sizes := []int{}
	for i := range 16 {
		if bits&(1<<i) != 0 {
			sizes = append(sizes, 4<<i)
		}
	}
	return sizes
}

func (p *Port) verbs(dev *verbs.Device) error {
	a, err := dev.Port(p.Number)
	if err != nil {
		return err
	}
	p.State = new(a.State.String())
	// Drivers that leave these out say 0, where sysfs and netlink may know.
	if a.PhysState != 0 {
		p.PhysicalState = new(strings.ToUpper(a.Physical()))
	}
	if p.LinkLayer == nil {
		p.LinkLayer = new(a.LinkLayer.String())
	}
	p.mtu(a)
	p.MaxMessage = new(uint64(a.MaxMsgSize))
	p.LID, p.SMLID, p.LMC, p.SMSL = hex(uint64(a.LID), 4), hex(uint64(a.SMLID), 4), new(int(a.LMC)), new(int(a.SMSL))
	p.SubnetTimeout, p.InitTypeReply = new(int(a.SubnetTimeout)), new(int(a.InitTypeReply))
	if n := a.VLs(); n != 0 {
		p.VirtualLanes = &n
	}
	p.BadPKeys, p.QKeyViolations = &a.BadPKeyCount, &a.QKeyViolCount
	p.Capabilities, p.Capabilities2 = portCaps(a.CapFlags), flags(uint64(a.CapFlags2), 4, a.Caps2().String())
	p.Flags = hex(uint64(a.Flags), 1)
	p.PKeyTable, p.GIDTable = &a.PKeyTableLen, &a.GIDTableLen
	if n := a.Lanes(); n != 0 {
		p.Width = &n
	}
	if n := a.LaneMbps(); n != 0 {
		p.LaneRate = &n
	}
	if n := a.Mbps(); n != 0 && p.Rate == nil {
		p.Rate = &n
	}
	if speed, err := dev.PortSpeed(p.Number); err == nil && speed > 0 {
		p.EffectiveRate = new(int(speed))
	}
	return errors.Join(p.verbsGIDs(dev), p.verbsPKeys(dev))
}

func (p *Port) mtu(a verbs.PortAttr) {
	if n := a.MaxMTU.Bytes(); n != 0 {
		p.MaxMTU = &n
	}
	p.ActiveMTU = nil
	if n := a.ActiveMTU.Bytes(); n != 0 {
		p.ActiveMTU = &n
	}
}

// verbsGIDs takes the table from the library where sysfs gave none.
func (p *Port) verbsGIDs(dev *verbs.Device) error {
	if p.GIDs != nil {
		return nil
	}
	entries, err := dev.GIDs(p.Number)
	if err != nil {
		return err
	}
	p.GIDs = []GID{}
	for _, e := range entries {
		g := newGID(e.Index, netip.AddrFrom16(e.GID))
		g.Type = new(e.Type.String())
		if name := e.NetDev(); name != "" {
			g.Netdev = &name
		}
		p.GIDs = append(p.GIDs, g)
	}
	return nil
}

func (p *Port) verbsPKeys(dev *verbs.Device) error {
	if p.PKeys != nil {
		return nil
	}
	keys, err := dev.PKeys(p.Number)
	if err != nil {
		return err
	}
	p.PKeys = []PKey{}
	for i, k := range keys {
		if k != 0 {
			p.PKeys = append(p.PKeys, PKey{Index: i, PKey: Hex{uint64(k), 4}})
		}
	}
	return nil
}
