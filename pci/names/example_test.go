package names_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/peerdirect/peerdirect/pci/names"
	"github.com/peerdirect/peerdirect/pci/ncclxml"
)

// Devices have numbers; a list that the distribution brings has their names. An empty
// path is the list of this machine, and no list is no failure.
func ExampleFill() {
	topo, err := ncclxml.Read(strings.NewReader(`<system version="1"><cpu numaid="0" affinity="3">
<pci busid="0000:1a:00.0" class="0x020700" vendor="0x15b3" device="0x1021"/></cpu></system>`))
	if topo == nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	list := filepath.Join(dir, "pci.ids")
	if err := os.WriteFile(list, []byte("15b3  Mellanox Technologies\n\t1021  MT2910 Family [ConnectX-7]\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	if err := names.Fill(topo, list); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", topo.Devices[0].VendorName, topo.Devices[0].ProductName)
	// Output: Mellanox Technologies: MT2910 Family [ConnectX-7]
}
