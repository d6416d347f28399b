package device

import "github.com/peerdirect/peerdirect/efa/wire"

const (
	features = 1<<wire.FeatureDeviceAttr | 1<<wire.FeatureAENQConfig | 1<<wire.FeatureNetworkAttr |
		1<<wire.FeatureQueueAttr1 | 1<<wire.FeatureHWHints | 1<<wire.FeatureHostInfo |
		1<<wire.FeatureEventQueueAttr | 1<<wire.FeatureQueueAttr2

	firmwareVersion = 1
	adminAPIVersion = 1 // the least that the driver takes
	deviceVersion   = 1
	virtualWidth    = 64
)

// getFeature carries out GET_FEATURE.
func (f *Function) getFeature(payload, resp []byte) error {
	var c wire.GetFeature
	c.Decode(payload)
	a := f.dev.Attr()
	switch c.Feature {
	case wire.FeatureDeviceAttr:
		a.Device.SupportedFeatures = features
		a.Device.FWVersion = firmwareVersion
		a.Device.AdminAPIVersion = adminAPIVersion
		a.Device.DeviceVersion = deviceVersion
		a.Device.DoorbellBAR = doorbellBAR
		a.Device.PhysAddrWidth = dmaWidth
		a.Device.VirtAddrWidth = virtualWidth
		a.Device.Encode(resp)
	case wire.FeatureQueueAttr1:
		a.Queue1.Encode(resp)
	case wire.FeatureQueueAttr2:
		a.Queue2.Encode(resp)
	case wire.FeatureNetworkAttr:
		a.Network.Encode(resp)
	case wire.FeatureEventQueueAttr:
		// An event queue wants a vector of its own, and the admin queue one.
		a.EQ.MaxEQ = min(a.EQ.MaxEQ, uint32(f.opts.Vectors-1))
		a.EQ.Encode(resp)
	case wire.FeatureAENQConfig:
		r := f.aenq.config()
		r.Encode(resp)
	case wire.FeatureHWHints:
		// No hints: the driver's own values serve. Linux 7.3 keeps the hint for
		// register reads as microseconds in 16 bits, so that more than 65 ms
		// become less than its own 50, and takes the one for commands in
		// microseconds.
		r := wire.HWHints{}
		r.Encode(resp)
	default:
		return illegal(wire.OpGetFeature.String(), "no attributes of %s to get", c.Feature)
	}
	return nil
}

// setFeature carries out SET_FEATURE.
func (f *Function) setFeature(desc wire.AQDesc, payload []byte) error {
	op := wire.OpSetFeature
	var c wire.SetFeature
	c.Decode(payload)
	switch c.Feature {
	case wire.FeatureAENQConfig:
		var a wire.AENQConfig
		a.Decode(c.Data[:])
		if a.Enabled&^uint32(aenqGroups) != 0 {
			return illegal(op.String(), "notification groups %#x; the device has %#x", a.Enabled, uint32(aenqGroups))
		}
		f.aenq.setGroups(a.Enabled)
		return nil
	case wire.FeatureHostInfo:
		if desc.Flags&wire.AQCtrlData == 0 || c.ControlBuffer.Length < wire.SizeHostInfo {
			return malformed(op, "host information in a buffer of %d bytes, it has %d", c.ControlBuffer.Length, wire.SizeHostInfo)
		}
		var b [wire.SizeHostInfo]byte
		if !fetch(f.opts.Memory, c.ControlBuffer.Addr, b[:]) {
			return illegal(op.String(), "the control buffer at %#x is not mapped", c.ControlBuffer.Addr)
		}
		f.host = &wire.HostInfo{}
		f.host.Decode(b[:])
		return nil
	}
	return illegal(op.String(), "no attributes of %s to set", c.Feature)
}
