package umem

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
)

// SoftwareDriver is the name of every driver without hardware: rxe, siw.
const SoftwareDriver = "software"

// driver is what is known of a driver's import.
type driver struct {
	name string
	// lacks is the newest kernel that is known to lack it, has the oldest that
	// is known to have it; zero is none. What lies between is not known.
	lacks, has version
	how        string  // for people
	revocable  version // since when an exporter can tell it to stop
	handles    bool    // it takes DMA handles
	early      []rule  // before ib_umem_dmabuf_get
	late       []rule  // after it
}

var (
	v5_15 = version{5, 15}
	v6_1  = version{6, 1}
	v6_12 = version{6, 12}
	v7_3  = version{7, 3}
)

// drivers are read in the sources of 5.15, 6.1, 6.12 and 7.3.
var drivers = []driver{
	{name: "mlx5", has: v5_15, how: "dynamic; pinned for data-direct and DEVX", revocable: v5_15, handles: true,
		early: []rule{mlx5Length}, late: []rule{pageSize(syscall.EINVAL)}},
	{name: "efa", lacks: v5_15, has: v6_1, how: "pinned",
		early: []rule{dmaHandle, efaAccess}, late: []rule{pageSize(syscall.EOPNOTSUPP), deviceLimit}},
	{name: "irdma", lacks: v6_1, has: v6_12, how: "pinned; revocable in 7.3", revocable: v7_3,
		early: []rule{dmaHandle, irdmaLength}, late: []rule{pageSize(syscall.EOPNOTSUPP)}},
	{name: "bnxt_re", lacks: v6_1, has: v6_12, how: "pinned",
		early: []rule{dmaHandle}, late: []rule{bnxtLength, pageSize(syscall.EINVAL)}},
	{name: "mana", lacks: v6_12, has: v7_3, how: "pinned",
		early: []rule{dmaHandle}, late: []rule{pageSize(syscall.EINVAL), deviceLimit}},
	{name: "ionic", lacks: v6_12, has: v7_3, how: "pinned",
		early: []rule{dmaHandle}, late: []rule{pageSize(syscall.EINVAL), deviceLimit}},
	{name: SoftwareDriver, lacks: v7_3}, {name: "rxe", lacks: v7_3}, {name: "siw", lacks: v7_3},
	{name: "hns", lacks: v7_3}, {name: "erdma", lacks: v7_3}, {name: "mlx4", lacks: v7_3}, {name: "cxgb4", lacks: v7_3},
	{name: "qedr", lacks: v7_3}, {name: "ocrdma", lacks: v7_3}, {name: "usnic", lacks: v7_3}, {name: "vmw_pvrdma", lacks: v7_3},
	{name: "hfi1", lacks: v7_3}, {name: "mthca", lacks: v7_3}, {name: "bng_re", lacks: v7_3},
}

// byPCI are RDMA drivers by the name that a PCI device's driver has, where the
// two differ. irdma stands on several drivers of network cards.
var byPCI = map[string]string{
	"mlx5_core": "mlx5", "mlx4_core": "mlx4", "bnxt_en": "bnxt_re", "ice": "irdma", "i40e": "irdma", "idpf": "irdma",
	"hns3": "hns", "qede": "qedr", "be2net": "ocrdma", "usnic_verbs": "usnic", "ib_mthca": "mthca", "bnge": "bng_re",
}

// DriverOfPCI is the RDMA driver on a PCI device's driver of that name, which is
// the same for those that have one driver for both.
func DriverOfPCI(name string) string {
	if rdma, ok := byPCI[name]; ok {
		return rdma
	}
	return name
}

func driverOf(name string) *driver {
	for i := range drivers {
		if drivers[i].name == name {
			return &drivers[i]
		}
	}
	return nil
}

func checkDriver(c *checker) outcome {
	d := c.driver
	switch {
	case c.Device.Driver == "":
		return unknown("the device's driver")
	case d == nil:
		return unknown(fmt.Sprintf("whether %s imports; ask it with descriptor -1: EBADF means yes", c.Device.Driver))
	case d.has == (version{}) && (c.kernel == version{} || !d.lacks.before(c.kernel)):
		return failed(fmt.Sprintf("%s imports no dma-bufs, in any kernel up to %v", d.describe(), d.lacks), d.remedy())
	case c.kernel == version{}:
		return unknown("the kernel's release")
	case d.has != (version{}) && !c.kernel.before(d.has):
		return passed()
	case !d.lacks.before(c.kernel):
		if c.vendor {
			return unknown(fmt.Sprintf("whether the distribution's kernel brings %s's import, which upstream has by linux %v", d.name, d.has))
		}
		return failed(fmt.Sprintf("%s of linux %v imports no dma-bufs", d.name, c.kernel),
			fmt.Sprintf("take linux %v or newer, or the vendor's driver", d.has))
	}
	return unknown(fmt.Sprintf("whether %s of linux %v imports: %v does not, %v does", d.name, c.kernel, d.lacks, cmpOr(d.has, "no known kernel")))
}

func cmpOr(v version, none string) string {
	if v == (version{}) {
		return none
	}
	return v.String()
}

func (d *driver) describe() string {
	if d.name == SoftwareDriver {
		return "a driver without hardware (rxe, siw)"
	}
	return d.name
}

func (d *driver) remedy() string {
	return "register memory by its address on this device, or use a NIC of " + strings.Join(importers(), ", ")
}

func importers() []string {
	var names []string
	for _, d := range drivers {
		if d.has != (version{}) {
			names = append(names, d.name)
		}
	}
	return names
}

// Import is one line of the table of drivers.
type Import struct {
	Driver string
	Lacks  string // newest kernel known to lack it, "" for none
	Has    string // oldest kernel known to have it, "" for none
	How    string
}

// Imports is the table: which drivers import dma-bufs, and since when.
func Imports() []Import {
	var out []Import
	for _, d := range drivers {
		out = append(out, Import{d.name, cmpOr(d.lacks, ""), cmpOr(d.has, ""), d.how})
	}
	return out
}

// version is a kernel's first two numbers; zero is unknown.
type version struct{ major, minor int }

func (v version) before(w version) bool {
	return v.major < w.major || v.major == w.major && v.minor < w.minor
}

func (v version) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

// parseVersion reads a release as uname -r tells it, "6.12.117+deb13-amd64".
// vendor says that the kernel's numbers do not tell what its drivers can: the
// distribution takes whole subsystems from newer kernels.
func parseVersion(release string) (v version, vendor bool) {
	major, rest, _ := strings.Cut(release, ".")
	digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if digits < 0 {
		digits = len(rest)
	}
	var err1, err2 error
	if v.major, err1 = strconv.Atoi(major); err1 != nil || v.major < 0 {
		return version{}, false
	}
	if v.minor, err2 = strconv.Atoi(rest[:digits]); err2 != nil {
		return version{}, false
	}
	return v, strings.Contains(release, ".el")
}
