package lab

import (
	"fmt"
	"slices"
	"strings"
)

// Kernel is one Linux series that the lab can boot, and the Debian release
// whose packages give its root.
type Kernel struct {
	// Series is the name users give: major and minor, "6.12".
	Series string

	release   string // Debian's code name
	backports bool   // take the kernel, and what it needs, from release-backports
}

// Kernels lists what can be built, oldest first. One series a Debian release:
// the metapackage linux-image-amd64 names the kernel, and modules.sh refuses
// one of another series.
var Kernels = []Kernel{
	{Series: "6.1", release: "bookworm"},
	{Series: "6.12", release: "trixie"},
	{Series: "7.3", release: "trixie", backports: true},
}

// DefaultKernel is the series used when none is named. QEMU comes out of its
// root for every kernel: vfio-user needs 10.1, which no release before has.
const DefaultKernel = "7.3"

// KernelBySeries finds a kernel by the name a user gave.
func KernelBySeries(series string) (Kernel, error) {
	i := slices.IndexFunc(Kernels, func(k Kernel) bool { return k.Series == series })
	if i < 0 {
		return Kernel{}, fmt.Errorf("no kernel %q in the lab: choose one of %s", series, strings.Join(KernelSeries(), ", "))
	}
	return Kernels[i], nil
}

// KernelSeries lists the names that [KernelBySeries] knows.
func KernelSeries() []string {
	var names []string
	for _, k := range Kernels {
		names = append(names, k.Series)
	}
	return names
}

// guestPackages is what every root holds besides Debian's minimum: the kernel
// with its headers, what builds C and modules against them, rdma-core, and the
// tools one reaches for.
var guestPackages = []string{
	"linux-image-amd64", "linux-headers-amd64", "gcc", "make", "libc6-dev", "libelf-dev",
	"rdma-core", "ibverbs-utils", "ibverbs-providers", "libibverbs-dev",
	"librdmacm-dev", "rdmacm-utils", "perftest",
	"kmod", "iproute2", "iputils-ping", "ethtool", "bpftool", "procps", "pciutils", "hwloc-nox",
	"util-linux", "strace", "busybox-static", "xz-utils",
}

// packages lists what mmdebstrap is asked for.
func (k Kernel) packages() []string {
	if k.Series == DefaultKernel {
		return append(slices.Clone(guestPackages), "qemu-system-x86")
	}
	return guestPackages
}

// sources gives the lines of the root's sources.list.
func (k Kernel) sources(mirror string) []string {
	s := []string{fmt.Sprintf("deb %s %s main", mirror, k.release)}
	if k.backports {
		s = append(s, fmt.Sprintf("deb %s %s-backports main", mirror, k.release))
	}
	return s
}

// pin gives apt's preferences, or "" for none. Backports must beat the release
// as a whole (500): QEMU's firmware packages do not resolve across the two.
func (k Kernel) pin() string {
	if !k.backports {
		return ""
	}
	return fmt.Sprintf("Package: *\nPin: release n=%s-backports\nPin-Priority: 600\n", k.release)
}
