package ncclxml

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
)

// maxGroups bounds a mask: pci.CPUs go to 65,536.
const maxGroups = 1 << 16 / 32

// parseMask reads a mask of CPUs as the kernel prints it in cpumap: groups of 32
// bits in hex, the highest first.
func parseMask(s string) (pci.CPUs, error) {
	cpus := pci.CPUs{}
	if strings.Count(s, ",") >= maxGroups {
		return nil, errors.New("the mask has more CPUs than any machine")
	}
	groups := strings.Split(strings.TrimSpace(s), ",")
	slices.Reverse(groups)
	for i, group := range groups {
		bits, err := strconv.ParseUint(group, 16, 32)
		if err != nil {
			return nil, fmt.Errorf("%q is no mask of CPUs such as 0000ffff,00000000", clip(s))
		}
		for bit := range 32 {
			if bits>>bit&1 != 0 {
				cpus = append(cpus, i*32+bit)
			}
		}
	}
	return cpus, nil
}

// mask spells a set of CPUs so; "" if it is longer than NCCL's reader takes, which
// then reads it from /sys.
func mask(cpus pci.CPUs) string {
	if len(cpus) == 0 {
		return ""
	}
	groups := make([]uint32, cpus[len(cpus)-1]/32+1)
	for _, c := range cpus {
		groups[len(groups)-1-c/32] |= 1 << (c % 32)
	}
	var s strings.Builder
	for i, g := range groups {
		if i > 0 {
			s.WriteByte(',')
		}
		fmt.Fprintf(&s, "%08x", g)
	}
	if s.Len() > maxValue {
		return ""
	}
	return s.String()
}

// parseClass reads a class code; NCCL's own stand-ins, 0x03 and 0x02, have the first
// byte alone.
func parseClass(s string) (uint32, error) {
	digits, ok := strings.CutPrefix(strings.ToLower(s), "0x")
	n, err := strconv.ParseUint(digits, 16, 24)
	if !ok || err != nil {
		return 0, fmt.Errorf("%q is no class such as 0x030200", clip(s))
	}
	switch {
	case len(digits) <= 2:
		n <<= 16
	case len(digits) <= 4:
		n <<= 8
	}
	return uint32(n), nil
}

// parseSpeed reads GT/s a lane: "8 GT/s", "16.0 GT/s PCIe", "32 GT/s PCIe/s", "5";
// 0 for "" and "Unknown".
func parseSpeed(s string) (float64, bool) {
	s = strings.TrimSpace(s)
	if s == "" || strings.HasPrefix(s, "Unknown") {
		return 0, true
	}
	number, _, _ := strings.Cut(s, "GT/s")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(v >= 1 && v <= 1024) {
		return 0, false
	}
	return v, true
}

// scanRoot reads the kernel's name of a root complex, pciDDDD:BB.
func scanRoot(s string) (domain uint32, bus uint8, ok bool) {
	s, ok = strings.CutPrefix(s, "pci")
	if !ok {
		return 0, 0, false
	}
	a, err := pci.ParseAddress(s + ":00.0")
	return a.Domain, a.Bus, err == nil
}

// maxValue is the longest value that NCCL's reader takes, in bytes (xml.cc,
// xmlGetValue).
const maxValue = 253

// clean gives a name that can stand in a file without escapes, which NCCL does not
// know; "" if it cannot.
func clean(s string) string {
	if len(s) > 64 {
		return ""
	}
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || strings.IndexByte(`"'<>&,`, c) >= 0 {
			return ""
		}
	}
	return s
}
