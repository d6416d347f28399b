package pci_test

import (
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"strings"
	"testing/fstest"

	"github.com/peerdirect/peerdirect/pci"
)

// Which NICs are an accelerator's rails, how far they are, and whether the kernel
// lets them reach its memory. Of this machine the root is os.DirFS("/"); a capture of
// another is opened by package capture.
func ExampleRead() {
	topo, err := pci.Read(machine())
	if errors.Is(err, pci.ErrNoDevice) {
		log.Fatal(err) // nothing to look at
	} else if err != nil {
		fmt.Fprintln(os.Stderr, err) // a part is missing, and unknown in what follows
	}
	for _, gpu := range topo.Of(pci.Accelerator) {
		for _, nic := range topo.Of(pci.RDMANIC) {
			fmt.Printf("%s to %s: %v (%s)\n", topo.Name(gpu), topo.Name(nic), topo.Distance(gpu, nic).Class, topo.Distance(gpu, nic).Reason)
		}
		for _, rail := range topo.Rails(gpu) {
			fmt.Printf("rail: %s, %.0f GB/s each way\n", topo.Name(rail), rail.Link.Bandwidth())
			if p2p := topo.P2P(gpu, rail); p2p.Allowed != pci.Yes {
				fmt.Println("peer-to-peer:", p2p.Allowed, "at", p2p.Bridge.Address) // p2p.Reason is why
			}
		}
	}
	// Output:
	// GPU0 to mlx5_0: PIX (one switch, upstream port 0000:17:00.0)
	// GPU0 to mlx5_1: SYS (NUMA nodes 0 and 1)
	// rail: mlx5_0, 63 GB/s each way
	// peer-to-peer: unknown at 0000:17:00.0
}

// An engineer's word goes before distance.
func ExampleParseOverrides() {
	topo, err := pci.Read(machine())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	overrides, err := pci.ParseOverrides(strings.NewReader("GPU0 = mlx5_1   # the near one is for storage\n"))
	if err != nil {
		log.Fatal(err) // a *pci.OverrideError, with its line
	}
	pairing, err := topo.Pair(pci.PairOptions{Overrides: overrides})
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range pairing.Pairs {
		fmt.Println(topo.Name(p.Accelerator), topo.Name(p.Rails[0]), p.Class)
	}
	// Output: GPU0 mlx5_1 SYS
}

// machine is the root of a machine with two root complexes, one to a NUMA node. A GPU
// and a NIC are below one switch of the first, another NIC is at the second.
func machine() fs.FS {
	m := fstest.MapFS{}
	function := func(at, vendor, device, class, node string) {
		address := at[strings.LastIndex(at, "/")+1:]
		for name, text := range map[string]string{
			"vendor": "0x" + vendor, "device": "0x" + device, "class": "0x" + class, "revision": "0x00",
			"subsystem_vendor": "0x0000", "subsystem_device": "0x0000", "numa_node": node, "local_cpulist": "0-1",
			"current_link_speed": "32.0 GT/s PCIe", "max_link_speed": "32.0 GT/s PCIe",
			"current_link_width": "16", "max_link_width": "16", "resource": "",
		} {
			m["sys/devices/"+at+"/"+name] = &fstest.MapFile{Data: []byte(text + "\n")}
		}
		m["sys/bus/pci/devices/"+address] = &fstest.MapFile{Data: []byte("../../../devices/" + at), Mode: fs.ModeSymlink}
	}
	rdma := func(at, name string) {
		m["sys/devices/"+at+"/infiniband/"+name+"/node_guid"] = &fstest.MapFile{Data: []byte("0000:0000:0000:0001\n")}
		m["sys/class/infiniband/"+name] = &fstest.MapFile{Data: []byte("../../devices/" + at + "/infiniband/" + name), Mode: fs.ModeSymlink}
	}
	const port, up = "pci0000:16/0000:16:01.0", "pci0000:16/0000:16:01.0/0000:17:00.0"
	function(port, "8086", "352a", "060400", "0")
	function(up, "1000", "c030", "060400", "0")
	function(up+"/0000:18:00.0", "1000", "c030", "060400", "0")
	function(up+"/0000:18:00.0/0000:19:00.0", "10de", "2330", "030200", "0")
	function(up+"/0000:18:01.0", "1000", "c030", "060400", "0")
	function(up+"/0000:18:01.0/0000:1a:00.0", "15b3", "1021", "020700", "0")
	rdma(up+"/0000:18:01.0/0000:1a:00.0", "mlx5_0")
	function("pci0000:97/0000:97:01.0", "8086", "352a", "060400", "1")
	function("pci0000:97/0000:97:01.0/0000:98:00.0", "15b3", "1021", "020700", "1")
	rdma("pci0000:97/0000:97:01.0/0000:98:00.0", "mlx5_1")
	return m
}
