package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/internal/inventory"
	"github.com/peerdirect/peerdirect/internal/umem"
	"github.com/peerdirect/peerdirect/pci"
)

// checkDevices tells which RDMA devices there are, and which NICs lack theirs.
func checkDevices(ctx context.Context, s *System) (found []Finding) {
	inv, err := s.inventory(ctx)
	for _, name := range s.Devices {
		if !slices.ContainsFunc(inv.Devices, func(d inventory.Device) bool { return d.Name == name }) {
			found = append(found, Finding{Subject: name, Verdict: Fail, Cause: CauseNoDevice,
				Summary: "there is no RDMA device of this name", Evidence: deviceNames(inv), Remedy: "'peerdirect devices' lists those that there are"})
		}
	}
	for _, d := range s.rdmaDevices(ctx) {
		found = append(found, Finding{Subject: d.Name, Verdict: OK, Summary: identity(d)})
	}
	if len(s.Devices) > 0 {
		return found
	}
	none := len(inv.Devices) == 0
	var lacking []Finding
	if t, _ := s.Topology(); t != nil {
		for _, nic := range t.Of(pci.RDMANIC) {
			if len(nic.RDMA) == 0 {
				lacking = append(lacking, s.lacking(t, nic, none)...)
			}
		}
	}
	found = append(found, alike(lacking)...)
	blamed := slices.ContainsFunc(lacking, func(f Finding) bool { return f.Verdict == Fail || f.Verdict == Unknown })
	switch {
	case !none || blamed:
		return found
	case errors.Is(err, fs.ErrPermission):
		return append(found, Finding{Verdict: Fail, Cause: CausePermission, Summary: "RDMA devices cannot be listed",
			Evidence: []string{err.Error()}, Remedy: "run as root"})
	}
	return append(found, s.noDevice(err))
}

func deviceNames(inv *inventory.Inventory) []string {
	var names []string
	for _, d := range inv.Devices {
		names = append(names, d.Name)
	}
	if names == nil {
		return []string{"/sys/class/infiniband: no device"}
	}
	return []string{"/sys/class/infiniband: " + strings.Join(names, ", ")}
}

// identity is what a device is, in a line.
func identity(d *inventory.Device) string {
	parts := []string{"driver " + rdmaDriver(d)}
	if rdmaDriver(d) == "" {
		parts = []string{"driver unknown"}
	}
	switch {
	case d.PCI != nil:
		parts = append(parts, d.PCI.Address)
	case software(d):
		parts = append(parts, "no hardware")
	}
	if f := value(d.Firmware); f != "" && !software(d) {
		parts = append(parts, "firmware "+f)
	}
	return strings.Join(parts, ", ")
}

// rdmaDriver is the name of a device's RDMA driver as package umem knows it; of a
// capture the inventory has that of the PCI function. "" is unknown.
func rdmaDriver(d *inventory.Device) string {
	if name := value(d.Driver); name != "" {
		return umem.DriverOfPCI(name)
	}
	if software(d) {
		return umem.SoftwareDriver
	}
	return ""
}

// driverOf is the PCI driver that the kernel has for a NIC, where its vendor's numbers
// tell (drivers/net/ethernet/mellanox/mlx4/main.c, mlx5/core/main.c); "" is unknown.
func driverOf(nic *pci.Device) string {
	const mellanox, amazon = 0x15b3, 0x1d0f
	switch n := nic.Product; {
	case nic.Vendor == amazon:
		return "efa"
	case nic.Vendor != mellanox, n >= 0x5000 && n < 0x6340:
		return "" // InfiniHost, of ib_mthca
	case n < 0x1011, n >= 0x6340 && n < 0x6800:
		return "mlx4_core" // up to ConnectX-3
	}
	return "mlx5_core"
}

// modprobe is the command that loads a module; none where modprobe is kept from it.
func (s *System) modprobe(name string) []string {
	if s.readModules().refused[name] {
		return nil
	}
	return []string{"modprobe " + quote(name)}
}

// lacking says why a NIC may be without its RDMA device. It fails where the machine
// has none at all.
func (s *System) lacking(t *pci.Topology, nic *pci.Device, none bool) []Finding {
	f := Finding{Subject: label(t, nic), Verdict: Warn, Evidence: []string{fmt.Sprintf("/sys/bus/pci/devices/%s: %04x:%04x, no folder infiniband", nic.Address, nic.Vendor, nic.Product)}}
	if none {
		f.Verdict, f.Cause = Fail, CauseNoDevice
	}
	tells := s.Live || slices.ContainsFunc(t.Devices, func(d *pci.Device) bool { return d.Driver != "" })
	module, known := inventory.ModuleOf(umem.DriverOfPCI(nic.Driver))
	switch {
	case nic.Driver == "" && !tells:
		f.Verdict, f.Cause, f.Summary = Unknown, CauseOther, "it could have an RDMA device and has none; whether a driver is bound is not in the capture"
	case nic.Driver == "" && nic.PF != nil:
		f.Verdict, f.Cause, f.Summary = Note, CauseOther, "a virtual function without a driver, as those for guests are"
	case nic.Driver == "":
		f.Summary = "it could have an RDMA device, and no driver is bound to it"
		f.Evidence = append(f.Evidence, "/sys/bus/pci/devices/"+nic.Address.String()+"/driver: no such file")
		f.Remedy = "load the driver; the kernel log says why if it is loaded and did not take the device"
		f.Commands = []string{"modprobe -v \"$(cat /sys/bus/pci/devices/" + nic.Address.String() + "/modalias)\""}
		if name := driverOf(nic); name != "" {
			f.Remedy = "load " + name + "; " + where(name) + "the kernel log says why if it is loaded and did not take the device"
			f.Commands = s.modprobe(name)
		}
	case nic.Driver == "vfio-pci" || strings.HasPrefix(nic.Driver, "uio"):
		f.Verdict, f.Cause = Note, CauseOther
		f.Summary = "it is given away to " + nic.Driver + " (a guest, or a driver in user space), so it has no RDMA device here"
	case !s.Live && len(nic.Net) == 0 && !s.holds("sys/class/infiniband"):
		f.Verdict, f.Cause, f.Summary = Unknown, CauseOther, "its driver "+nic.Driver+" made no RDMA device, or the capture left it out"
	case known:
		f.Evidence = append(f.Evidence, "driver: "+nic.Driver)
		if there, told := s.exists("sys/module/" + module); there || !told {
			f.Summary = "its driver " + nic.Driver + " made no RDMA device"
			f.Remedy = "look whether RDMA is switched off for it (devlink dev param show), or whether the device is in another network namespace (rdma system show); the kernel log tells of a failure"
			break
		}
		f.Summary = "its RDMA module " + module + " is not loaded"
		f.Evidence = append(f.Evidence, "/sys/module/"+module+": no such file")
		f.Remedy, f.Commands = "load it (check modules)", s.modprobe(module)
	default:
		f.Summary = "its driver " + nic.Driver + " made no RDMA device"
	}
	return []Finding{f}
}

// holds tells whether a file is there.
func (s *System) holds(name string) bool {
	there, _ := s.exists(name)
	return there
}

// where tells of drivers that distributions do not have.
func where(driver string) string {
	if driver == "efa" {
		return "kernels of Debian have no such module, the installer of the vendor's EFA software brings it; "
	}
	return ""
}

// noDevice is the machine without any RDMA device, and without a NIC that lacks one.
func (s *System) noDevice(err error) Finding {
	f := Finding{Verdict: Fail, Cause: CauseNoDevice, Summary: "there is no RDMA device, and no NIC that is known to be able to have one"}
	if err != nil {
		f.Evidence = append(f.Evidence, err.Error())
	}
	t, _ := s.Topology()
	if t != nil {
		for _, d := range t.Of(pci.OtherNIC) {
			if module, ok := inventory.ModuleOf(umem.DriverOfPCI(d.Driver)); ok {
				f.Summary = "there is no RDMA device; some of its NICs can do RDMA, others of the same driver cannot"
				f.Evidence = append(f.Evidence, fmt.Sprintf("%s (%s): driver %s, for which %s makes RDMA devices", t.Name(d), d.Address, d.Driver, module))
				f.Commands = union(f.Commands, s.modprobe(module))
			}
		}
	}
	if !s.Live {
		f.Remedy = "nothing can be made direct without one"
		return f
	}
	f.Remedy = "without hardware there are: the software device in a process ('peerdirect demo'), machines of the lab ('peerdirect lab run --efa 1 -- peerdirect doctor')"
	if have := s.softwareDrivers(); len(have) > 0 {
		f.Remedy += "; this kernel's " + strings.Join(have, " and ") + " on an Ethernet interface of your choice ('rdma link add " + have[0] + "0 type " + have[0] + " netdev INTERFACE'), which takes no accelerator memory"
	}
	return f
}

// softwareDrivers are those that this kernel has as modules, loaded or not, as far
// as its list of modules is here.
func (s *System) softwareDrivers() (have []string) {
	dep, _ := s.text("lib/modules/" + s.Kernel() + "/modules.dep")
	for _, d := range []struct{ name, module string }{{"rxe", "rdma_rxe"}, {"siw", "siw"}} {
		loaded, _ := s.exists("sys/module/" + d.module)
		if loaded || strings.Contains(dep, "/"+d.module+".ko") {
			have = append(have, d.name)
		}
	}
	return have
}
