package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// How long the driver may take with n devices. It probes them one after the
// other, each in a second or two under emulation.
const (
	efaWait     = 20 * time.Second
	efaWaitEach = 5 * time.Second
)

// amazonVendor is EFA's PCI vendor, as sysfs writes it.
const amazonVendor = "0x1d0f"

// efaUp loads the efa driver and waits until n devices are registered with
// their ports active. It gives their names in order. An error says what lacks;
// the end of the kernel's log, which the host shows with it, says why.
func efaUp(n int) (names []string, err error) {
	for _, m := range []string{"ib_uverbs", "efa"} {
		if err := modprobe(m); err != nil {
			return nil, err
		}
	}
	start := time.Now()
	err = poll(efaWait+time.Duration(n)*efaWaitEach, func() error {
		names = efaDevices()
		var lacks []string
		for _, name := range names {
			if state := portState(name); !strings.Contains(state, "ACTIVE") {
				lacks = append(lacks, fmt.Sprintf("port 1 of %s is %s", name, state))
			}
		}
		switch functions, driverless := efaFunctions(); {
		case len(functions) < n:
			lacks = append(lacks, fmt.Sprintf("PCI shows %d functions of EFA", len(functions)))
		case len(driverless) > 0:
			lacks = append(lacks, "no driver took "+strings.Join(driverless, ", "))
		}
		if len(names) < n || len(lacks) > 0 {
			return fmt.Errorf("%d of %d EFA devices are registered after %.0f s: %s",
				len(names), n, time.Since(start).Seconds(), strings.Join(lacks, "; "))
		}
		return nil
	})
	return names, err
}

// efaDevices gives the RDMA devices that the efa driver made, efa_2 before
// efa_10.
func efaDevices() []string {
	paths, _ := filepath.Glob("/sys/class/infiniband/efa_*")
	var names []string
	for _, p := range paths {
		names = append(names, filepath.Base(p))
	}
	number := func(name string) int {
		n, _ := strconv.Atoi(strings.TrimPrefix(name, "efa_"))
		return n
	}
	slices.SortFunc(names, func(a, b string) int { return number(a) - number(b) })
	return names
}

func portState(device string) string {
	b, err := os.ReadFile("/sys/class/infiniband/" + device + "/ports/1/state")
	if err != nil {
		return "not there"
	}
	return strings.TrimSpace(string(b))
}

// efaFunctions gives the PCI addresses of EFA's functions, and of those that
// have no driver.
func efaFunctions() (all, driverless []string) {
	paths, _ := filepath.Glob("/sys/bus/pci/devices/*/vendor")
	for _, p := range paths {
		if b, _ := os.ReadFile(p); strings.TrimSpace(string(b)) != amazonVendor {
			continue
		}
		dir := filepath.Dir(p)
		all = append(all, filepath.Base(dir))
		if _, err := os.Stat(filepath.Join(dir, "driver")); err != nil {
			driverless = append(driverless, filepath.Base(dir))
		}
	}
	return all, driverless
}
