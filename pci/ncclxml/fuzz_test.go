package ncclxml

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/pci"
)

// FuzzRead: whatever a file holds, what was read of it can be written, and reads as
// what it was: the accelerators and NICs that had room, as far apart.
func FuzzRead(f *testing.F) {
	const a, z = `<system version="1"><cpu numaid="0" affinity="3" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">`, `</cpu></system>`
	f.Add(a + `<pci busid="ffff:ff:01.0" class="0x060400" link_speed="8 GT/s" link_width="16"><pci busid="0000:10:1c.0" class="0x030200"><gpu dev="0"/></pci><pci busid="0000:10:1b.0" class="0x020000"/></pci>` + z)
	f.Add(a + `<pci busid="1:0.0" class="0x03" root="pci0000:00" rdma="a,b" net="c"/><pci busid="2:0.0" class="0x02" root=""/></cpu><cpu numaid="0"><pci busid="3:0.0" class="0x0302"/>` + z)
	f.Add(`<system version="2"><cpu numaid="-1" host_hash="0x1"><pci busid="0:0.0"><pci busid="0:1.0"><pci busid="0:2.0"><nic><net name="mlx5_0" guid="0x1" speed="1"/></nic></pci></pci></pci></cpu><cpu numaid="1" host_hash="0x1"><nic><net name="e"/></nic>` + z)
	f.Add("<!-- x -->\n<system>" + `<cpu numaid="7" affinity="f,00000000"><pci busid="10001:80:01.0" class="0x120000" link_speed="32 GT/s PCIe/s"/>` + z)
	f.Fuzz(func(t *testing.T, text string) {
		before, err := Read(strings.NewReader(text))
		if before == nil {
			if !errors.Is(err, pci.ErrNoDevice) {
				t.Fatal(err)
			}
			return
		}
		first := written(t, before)
		for line := range bytes.Lines(first) {
			if bytes.Count(line, []byte(`="`)) > 16 || bytes.Count(line, []byte("<")) != 1 {
				t.Fatalf("NCCL does not take the line %s", line)
			}
		}
		roundTrip(t, before)
	})
}
