package hwlocxml_test

import (
	"fmt"
	"log"
	"os"

	"github.com/peerdirect/peerdirect/pci"
	"github.com/peerdirect/peerdirect/pci/hwlocxml"
)

// A file of lstopo is a topology like any other; what hwloc does not keep is unknown.
func ExampleRead() {
	file, err := os.Open("testdata/v2.xml")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	topo, err := hwlocxml.Read(file)
	if topo == nil {
		log.Fatal(err) // pci.ErrNoDevice, or no file of hwloc
	} else if err != nil {
		fmt.Fprintln(os.Stderr, err) // a part could not be read
	}
	for _, d := range topo.Devices {
		if d.Kind != pci.Bridge {
			fmt.Printf("%s %s %.0f GB/s\n", d.Address, d.Kind, d.Link.Carries)
		}
	}
	// Output:
	// 0000:03:00.0 accelerator 63 GB/s
	// 0000:04:00.0 RDMA NIC 63 GB/s
	// 0000:7f:08.0 other 0 GB/s
	// 10000:81:00.0 NVMe 0 GB/s
}
