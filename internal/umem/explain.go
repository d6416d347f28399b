package umem

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/peerdirect/peerdirect/internal/errname"
)

// ENOTSUPP has no name in user space; drivers let it escape all the same.
const ENOTSUPP = errname.NotSupported

// KernelLog are messages of the kernel that tell why a device may not reach
// another's memory (drivers/pci/p2pdma.c, linux 7.3).
var KernelLog = []string{
	"not in P2PDMA whitelist", // "Host bridge not …"
	"ACS redirect is set between the client and provider",
	"cannot be used for peer-to-peer DMA as the client and provider",
}

// Explain says why the kernel answered so, as far as it can be found: by the
// rule that fails with that error, with both its numbers; else by what the
// error leaves open. It never is empty.
func Explain(r *Request, errno syscall.Errno) string {
	rules := Check(r)
	if f := First(rules); f != nil {
		if f.Errno == errno {
			return f.String()
		}
		// Another rule fails with the kernel's answer: it met that one first.
		for i := range rules {
			if rules[i].Verdict == Failed && rules[i].Errno == errno {
				return rules[i].String()
			}
		}
	}
	switch errno {
	case syscall.ENOMEM:
		return explainMemory(r)
	case ENOTSUPP:
		return "the exporter refused this device: a buffer that was exported for one path (CUDA's PCIE mapping) goes only to the NIC " +
			"on that path; export it without that flag for the others, or register it on the NIC next to the accelerator"
	case syscall.EPERM, syscall.EACCES:
		return exporter(r) + " refused this device: the driver was loaded without peer-to-peer access, or it takes one registration for each " +
			"descriptor and this is the second; export the memory once more for each NIC"
	case syscall.ENODEV:
		return exporter(r) + " says that its memory is gone: the device was reset, or its memory is switched off; export it anew"
	case syscall.EBUSY:
		return exporter(r) + " cannot move the memory to where this device reaches it"
	case syscall.EREMOTEIO:
		return "there is no path for peer-to-peer traffic between the two devices" + look()
	}
	return open(rules, errno)
}

// open lists what was not ruled out.
func open(rules []Rule, errno syscall.Errno) string {
	var left []string
	for _, u := range rules {
		if u.Errno == errno && u.Verdict == Unknown {
			left = append(left, fmt.Sprintf("%s (not known: %s)", u.Demand, u.Cause))
		}
	}
	if left == nil {
		return "every rule of the kernel that can be checked holds: the device or the buffer's exporter refused; dmesg may tell more" + look()
	}
	return "every rule of the kernel that can be checked holds; what remains: " + strings.Join(left, "; ") +
		"; or a refusal by the device or the exporter, of which dmesg may tell"
}

// explainMemory names the causes that an ENOMEM has left. That memory ran out
// is the rarest.
func explainMemory(r *Request) string {
	var b strings.Builder
	b.WriteString("not the memlock limit, which does not count for dma-bufs; ")
	if r.Device.MaxMRSize != 0 {
		fmt.Fprintf(&b, "not the device's max_mr_size either: %s of %s; ", Bytes(r.Length), Bytes(r.Device.MaxMRSize))
	}
	fmt.Fprintf(&b, "the device has no room for so many regions or pages (deregister, or register fewer and larger ones), or %s could not map the buffer for this device", exporter(r))
	b.WriteString(look())
	if r.Device.Translated && r.Length > 1<<30 {
		fmt.Fprintf(&b, "; the device's IOMMU translates, and has no %s of addresses in one piece: register pieces of 1 GiB", Bytes(r.Length))
	}
	return b.String()
}

func exporter(r *Request) string {
	if r.Buffer.Exporter == "" {
		return "the exporter"
	}
	return "the exporter (" + r.Buffer.Exporter + ")"
}

func look() string {
	return `; look in dmesg for "` + strings.Join(KernelLog, `", "`) + `"`
}
