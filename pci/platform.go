package pci

import (
	"strconv"
	"strings"
)

// String gives a fact in a word.
func (t Tri) String() string {
	switch t {
	case No:
		return "no"
	case Yes:
		return "yes"
	}
	return "unknown"
}

// MarshalText spells it in JSON.
func (t Tri) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// platform reads what the machine is.
func (r *reader) platform() {
	r.rootNodes()
	p := &r.t.Platform
	if s, ok := r.text("proc/cpuinfo"); ok {
		if len(s) > 4000 { // of many processors the first; the last line may be cut
			s = s[:strings.LastIndexByte(s, '\n')+1]
		}
		p.processor(parseProcessor(s))
	}
	if s, ok := r.text("proc/sys/kernel/arch"); ok && s != "" {
		p.Arch = s
	}
	p.Kernel, _ = r.text("proc/sys/kernel/osrelease")
	if p.Kernel == "" {
		s, _ := r.text("proc/version")
		p.Kernel = parseVersion(s)
	}
	vendor := r.dmi("sys_vendor")
	p.System = systemName(vendor, r.dmi("product_name"))
	if p.System == "" {
		s, _ := r.text("sys/firmware/devicetree/base/model")
		p.System = strings.Trim(s, "\x00")
	}
	if p.Virtual == Unknown {
		p.Virtual = r.guest(vendor)
	}
	if !r.t.Outline {
		p.P2PDMA = r.p2pdma()
	}
}

func (r *reader) dmi(name string) string {
	for _, dir := range []string{"sys/class/dmi/id/", "sys/devices/virtual/dmi/id/"} {
		if s, ok := r.text(dir + name); ok {
			return s
		}
	}
	return ""
}

// guest tells of a guest whose processor does not. A hypervisor need not show
// itself, so this is never a no.
func (r *reader) guest(vendor string) Tri {
	if vendor == "QEMU" || r.exists("sys/firmware/devicetree/base/hypervisor") {
		return Yes
	}
	return Unknown
}

// systemName joins vendor and product, which often begins with the vendor.
func systemName(vendor, product string) string {
	if vendor == "" || strings.HasPrefix(strings.ToLower(product), strings.ToLower(vendor)) {
		return product
	}
	return strings.TrimSpace(vendor + " " + product)
}

// parseVersion finds the release in /proc/version.
func parseVersion(s string) string {
	s, ok := strings.CutPrefix(s, "Linux version ")
	if !ok {
		return ""
	}
	release, _, _ := strings.Cut(s, " ")
	return release
}

// processor is what /proc/cpuinfo tells of one.
type processor struct {
	arch, vendor  string
	family, model int
	virtual       Tri
}

func (p *Platform) processor(c processor) {
	p.Arch, p.CPU, p.Family, p.Model, p.Virtual = c.arch, c.vendor, c.family, c.model, c.virtual
}

// implementers are those of the main ID register on arm64 (MIDR_EL1, Arm's
// architecture reference manual).
var implementers = map[string]string{
	"0x41": "ARM", "0x42": "Broadcom", "0x43": "Cavium", "0x46": "Fujitsu", "0x48": "HiSilicon",
	"0x4e": "NVIDIA", "0x50": "APM", "0x51": "Qualcomm", "0x61": "Apple", "0x6d": "Microsoft", "0xc0": "Ampere",
}

// parseProcessor reads the first processor of /proc/cpuinfo, each architecture's in
// its own words.
func parseProcessor(s string) (c processor) {
	for line := range strings.SplitSeq(s, "\n") {
		key, value, ok := strings.Cut(line, ":")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok {
			if key == "" && c.vendor != "" {
				break // the next processor
			}
			continue
		}
		switch key {
		case "vendor_id":
			c.vendor = value
		case "cpu family":
			c.family = decimal(value)
		case "model":
			c.model = decimal(value)
		case "flags":
			c.flags(value)
		case "CPU implementer":
			c.vendor = implementers[value]
			if c.vendor == "" {
				c.vendor = value
			}
		case "CPU architecture":
			if value == "8" || value == "AArch64" {
				c.arch = "aarch64"
			}
		}
	}
	return c
}

// flags are the features of an x86 processor: lm is long mode, and hypervisor is
// never set outside a guest (CPUID 1, ECX 31).
func (c *processor) flags(value string) {
	c.virtual = No
	for flag := range strings.FieldsSeq(value) {
		switch flag {
		case "lm":
			c.arch = "x86_64"
		case "hypervisor":
			c.virtual = Yes
		}
	}
}

func decimal(s string) int {
	v, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0
	}
	return int(v)
}
