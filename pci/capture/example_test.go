package capture_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"log"
	"testing/fstest"

	"github.com/peerdirect/peerdirect/pci"
	"github.com/peerdirect/peerdirect/pci/capture"
)

// One engineer captures a machine (os.DirFS("/"), or better capture.Open("/")), another
// reads the file as if it were there. It has no serial number and no address of the
// machine's.
func Example() {
	machine := fstest.MapFS{
		"sys/bus/pci/devices/0000:1a:00.0": {Data: []byte("../../../devices/pci0000:1a/0000:1a:00.0"), Mode: fs.ModeSymlink},
	}
	for name, text := range map[string]string{"vendor": "0x15b3", "device": "0x1021", "class": "0x020700", "revision": "0x00",
		"subsystem_vendor": "0x15b3", "subsystem_device": "0x0041", "numa_node": "-1", "local_cpulist": "0-7", "resource": "", "vpd": "SN0123456789"} {
		machine["sys/devices/pci0000:1a/0000:1a:00.0/"+name] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	var file bytes.Buffer
	summary, err := capture.Write(&file, machine)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(summary.Devices, "device; its serial number is in it:", bytes.Contains(file.Bytes(), []byte("SN0123456789")))

	root, err := capture.Read(&file) // or capture.Open of its name
	if err != nil {
		log.Fatal(err)
	}
	topo, err := pci.Read(root)
	if topo == nil {
		log.Fatal(err)
	}
	fmt.Println(topo.Devices[0].Address, topo.Devices[0].Kind)
	// Output:
	// 1 device; its serial number is in it: false
	// 0000:1a:00.0 RDMA NIC
}
