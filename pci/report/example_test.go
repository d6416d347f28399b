package report_test

import (
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
	"github.com/peerdirect/peerdirect/pci/ncclxml"
	"github.com/peerdirect/peerdirect/pci/report"
)

// A machine as the command peerdirect topo prints it: here one that a file of NCCL
// describes.
func Example() {
	topo, err := ncclxml.Read(strings.NewReader(file))
	if topo == nil {
		log.Fatal(err)
	}
	pairing, err := topo.Pair(pci.PairOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if err := report.Tree(os.Stdout, topo, report.Options{Pairing: pairing, Width: 100}); err != nil {
		log.Fatal(err)
	}
	fmt.Println()
	if err := report.Pairs(os.Stdout, topo, pairing, report.Options{Width: 100}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// x86_64
	// 1 accelerator, 2 RDMA NICs, 1 PCIe switch
	// NUMA node 0: CPUs 0-7
	// \-cpu0
	//   \-17:00.0  switch  ? of 32 GT/s x16
	//     +-19:00.0  GPU0  10de:2330  ? of 32 GT/s x16  → NIC0 (PIX)
	//     \-1a:00.0  NIC0  15b3:1021  ? of 32 GT/s x16
	// NUMA node 1: CPUs 8-15
	// \-cpu1
	//   \-98:00.0    NIC1  15b3:1021  ? of 32 GT/s x16
	//
	// ACCELERATOR   CLASS  RAILS
	// GPU0 19:00.0  PIX    NIC0
	//   PIX: the same bridge above, 0000:17:00.0; the nearest of 2 NICs
	//
	// Nobody's rails
	//   NIC1
}

const file = `<system version="1">
<cpu numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
  <pci busid="0000:17:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
    <pci busid="0000:19:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16"/>
    <pci busid="0000:1a:00.0" class="0x020700" vendor="0x15b3" device="0x1021" link_speed="32.0 GT/s PCIe" link_width="16"/>
  </pci>
</cpu>
<cpu numaid="1" affinity="ff00" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
  <pci busid="0000:98:00.0" class="0x020700" vendor="0x15b3" device="0x1021" link_speed="32.0 GT/s PCIe" link_width="16"/>
</cpu>
</system>`
