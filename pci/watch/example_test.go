package watch_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/pci"
	"github.com/peerdirect/peerdirect/pci/ncclxml"
	"github.com/peerdirect/peerdirect/pci/watch"
)

// What there is comes first, then what changes: here a NIC that is gone when the
// machine is read again. Without Options.Read it is this machine.
func ExampleWatch() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	text := file
	read := func() (*pci.Topology, error) {
		topo, err := ncclxml.Read(strings.NewReader(text))
		text = file[:strings.Index(file, `<cpu numaid="1"`)] + "</system>"
		return topo, err
	}
	for record, err := range watch.Watch(ctx, watch.Options{Interval: time.Millisecond, Read: read}) {
		if err != nil {
			log.Fatal(err)
		}
		switch record.Event {
		case watch.Present:
			fmt.Println("there is", *record.Address)
		case watch.Removed:
			fmt.Println("gone is", *record.Address)
			return
		default: // Changed, Notified, Problem
			_ = record.WriteText(os.Stderr)
		}
	}
	// Output:
	// there is 0000:17:00.0
	// there is 0000:19:00.0
	// there is 0000:1a:00.0
	// there is 0000:98:00.0
	// gone is 0000:98:00.0
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
