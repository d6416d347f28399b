package draw_test

import (
	"bytes"
	"fmt"
	"log"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
	"github.com/peerdirect/peerdirect/pci/draw"
	"github.com/peerdirect/peerdirect/pci/ncclxml"
)

// The picture of a machine is one SVG that refers to nothing outside itself.
func ExampleSVG() {
	topo, err := ncclxml.Read(strings.NewReader(file))
	if topo == nil {
		log.Fatal(err)
	}
	pairing, err := topo.Pair(pci.PairOptions{})
	if err != nil {
		log.Fatal(err)
	}
	var picture bytes.Buffer
	if err := draw.SVG(&picture, topo, pairing, draw.Options{Scheme: draw.Light, Title: "two nodes, one GPU"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.HasPrefix(picture.String(), "<svg "), strings.Contains(picture.String(), "two nodes, one GPU"))
	// Output: true true
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
