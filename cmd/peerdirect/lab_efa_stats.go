package main

import (
	"fmt"
	"io"
	"sync"

	"github.com/peerdirect/peerdirect/efa/device"
)

// efaStats prints what the EFA devices of a run counted.
type efaStats struct {
	mu      sync.Mutex
	devices []efaStat // of the last boot, in the order in which they were made
}

type efaStat struct {
	node, index int
	*device.Function
}

// made keeps a device. The lab makes all anew when it boots again.
func (s *efaStats) made(node, index int, f *device.Function) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if node == 0 && index == 0 {
		s.devices = nil
	}
	s.devices = append(s.devices, efaStat{node, index, f})
}

// print tells where the bytes lay that the devices read and wrote, two lines a
// device.
func (s *efaStats) print(w io.Writer) {
	for _, d := range s.devices {
		all := d.Device().Stats()
		for _, p := range []struct {
			of string
			device.PayloadStats
		}{{"reads and writes", all.RDMAPayload}, {"messages", all.MessagePayload}} {
			fmt.Fprintf(w, "node%d efa_%d: %s: host memory: %d bytes read, %d written; accelerators: %d bytes read, %d written\n",
				d.node, d.index, p.of, p.HostRead, p.HostWritten, p.AcceleratorRead, p.AcceleratorWritten)
		}
	}
}
