package doctor

import (
	"strconv"
	"strings"

	"github.com/peerdirect/peerdirect/internal/inventory"
)

// model tells devices of a kind; "" is unknown.
func model(d *inventory.Device) string {
	f := d.PCI
	if f == nil || f.VendorID == nil || f.DeviceID == nil {
		return ""
	}
	parts := []string{f.VendorID.String() + ":" + f.DeviceID.String()}
	if f.SubsystemVendor != nil && f.SubsystemDevice != nil {
		parts = append(parts, "subsystem "+f.SubsystemVendor.String()+":"+f.SubsystemDevice.String())
	}
	if d.BoardID != nil {
		parts = append(parts, "board "+*d.BoardID)
	}
	return strings.Join(parts, ", ")
}

func gbps(mbps int) string {
	return strconv.FormatFloat(float64(mbps)/1000, 'f', -1, 64) + " Gb/s"
}
