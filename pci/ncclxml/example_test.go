package ncclxml_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
	"github.com/peerdirect/peerdirect/pci/ncclxml"
)

// A topology file, as NCCL_TOPO_FILE names it.
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

// A file of NCCL is a topology like any other, and a topology can be written as one.
func Example() {
	topo, err := ncclxml.Read(strings.NewReader(file))
	if topo == nil {
		log.Fatal(err) // pci.ErrNoDevice, or ncclxml.ErrFormat
	}
	gpu := topo.Of(pci.Accelerator)[0]
	for _, nic := range topo.Of(pci.RDMANIC) {
		fmt.Println(topo.Name(gpu), nic.Address, topo.Distance(gpu, nic).Class)
	}

	var out bytes.Buffer // for NCCL_TOPO_FILE on a machine of that kind
	if err := ncclxml.Write(&out, topo); err != nil {
		log.Fatal(err)
	}
	again, err := ncclxml.Read(&out)
	fmt.Println(len(again.Devices), err)

	_, err = ncclxml.Read(strings.NewReader("<topology/>"))
	fmt.Println(errors.Is(err, ncclxml.ErrFormat))
	// Output:
	// GPU0 0000:1a:00.0 PIX
	// GPU0 0000:98:00.0 SYS
	// 4 <nil>
	// true
}
