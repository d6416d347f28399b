package report_test

import (
	"fmt"
	"log"
	"os"

	"github.com/peerdirect/peerdirect/transfer/pages"
	"github.com/peerdirect/peerdirect/transfer/report"
)

// A result in a few lines, as pages.Node.To or Listener.Receive give it.
func ExampleText() {
	result := &pages.Result{
		Role: pages.RoleSender, Bytes: 32 << 20, Pages: 512, Iterations: 1, Seconds: 0.004, PerSecond: 8.4e9, Gbit: 67.1,
		Writes: 512, Notices: 32, Verified: true, PageSum: "CRC-32C", Checksum: "90f2a1c4b7de5566c0ffee00",
		Conditions: pages.Conditions{Device: "efa_0", NICs: 1, Transport: "EFA SRD", MTU: 8928, Path: "direct",
			Memory: "host", PeerMemory: "host", Kernel: "7.3.4", PageSize: 64 << 10, Remote: "192.0.2.1:18630", Queues: 1},
	}
	if err := report.Text(os.Stdout, result); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 512 pages of 64 KiB to 192.0.2.1:18630: 32 MiB in 4ms, 7.8 GiB/s, 67.1 Gbit/s
	//   efa_0, EFA SRD, direct data path, MTU 8928, linux 7.3.4
	//   from host memory to host memory
	//   verified: the CRC-32C of every page is the sender's; their SHA-256 is 90f2a1c4b7de5566…
}

// Sizes are printed with binary units, and read from flags with or without them.
func ExampleBytes() {
	var size report.Bytes
	for _, text := range []string{"4096", "64K", "1GiB", "12 parsecs"} {
		if err := size.Set(text); err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(size, uint64(size))
	}
	// Output:
	// 4 KiB 4096
	// 64 KiB 65536
	// 1 GiB 1073741824
	// "12 parsecs" is no size: give bytes, as 4096, 64K or 1M
}
