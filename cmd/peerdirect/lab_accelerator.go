package main

import (
	"fmt"

	"github.com/peerdirect/peerdirect/internal/lab"
	"github.com/spf13/pflag"
)

// registerAccelerators adds the flags that say which accelerators the machines
// have.
func registerAccelerators(f *pflag.FlagSet, o *lab.Options) {
	f.IntVar(&o.Accelerators.Count, "accelerator", 0, fmt.Sprintf(
		"accelerators of each machine, up to %d: memory behind a PCI BAR, exported as peer-to-peer dma-bufs (default none)", lab.MaxAccelerators))
	f.IntVar(&o.Accelerators.Memory, "accelerator-memory", lab.DefaultAcceleratorMemory, "memory of each accelerator, `MiB`")
	f.BoolVar(&o.IOMMU, "iommu", false, "give each machine an IOMMU, which vfio-pci needs")
	f.BoolVar(&o.ACS, "acs", false, "give the switch ports above accelerators access control services, which can keep their traffic off the switch")
}
