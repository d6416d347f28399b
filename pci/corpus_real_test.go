package pci

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCorpusPublishers compares real captures of /sys with what their publisher's
// tool, lstopo, printed of them: whatever it states of a function.
func TestCorpusPublishers(t *testing.T) {
	corpusFolder(t) // or skip
	total := 0
	for _, c := range []struct {
		name, printed string
		functions     int      // that the printed topology has
		left          []string // those that it leaves out; nil if it leaves out what is of no interest
		elsewhere     []string // functions that lstopo puts near other CPUs than local_cpulist
	}{
		// The publisher changed local_cpus, which lstopo reads, and not local_cpulist.
		{"2pa-pcidomain32bits", ".console", 4, nil, []string{"0000:00:01.1", "0000:00:02.0", "0000:00:03.0", "10000:00:04.0"}},
		{"32intel64-2p8co2t+8ve", ".console", 28, nil, nil},
		// lstopo goes by the root complex; the NVMe's own list is shorter.
		{"32em64t-2n8c+dax+nvme+mic+dimms", ".xml", 136, []string{"0000:00:11.0"}, []string{"0000:00:02.0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			topo := captured(t, c.name)
			text := corpusFile(t, "sysfs/"+c.name+c.printed)
			var all []*said
			if c.printed == ".xml" {
				all = readHwlocXML(t, text)
			} else {
				all = readConsole(t, string(text))
			}
			printed := map[string]bool{}
			for _, s := range all {
				printed[s.address] = true
			}
			facts := 0
			for _, s := range all {
				if slices.Contains(c.elsewhere, s.address) {
					s.cpus = ""
				}
				facts += s.agree(t, topo, printed)
			}
			if len(printed) != c.functions {
				t.Errorf("%d functions are printed, want %d", len(printed), c.functions)
			}
			var left []string
			for _, d := range topo.Devices {
				if !printed[d.Address.String()] {
					left = append(left, d.Address.String())
				}
			}
			if c.left != nil && !slices.Equal(left, c.left) {
				t.Errorf("not printed are %v, want %v", left, c.left)
			}
			t.Logf("%d functions, %d facts", len(all), facts)
			total += facts
		})
	}
	t.Logf("%d facts", total)
}

// TestCorpusModalias compares the identity of every function of the real captures
// with its modalias, which the kernel puts together of the same registers and
// nothing here reads.
func TestCorpusModalias(t *testing.T) {
	corpusFolder(t) // or skip
	total := 0
	for name, least := range map[string]int{
		"2pa-pcidomain32bits": 9, "32em64t-2n8c+dax+nvme+mic+dimms": 137, "32intel64-2p8co2t+8ve": 28,
		"linux-amd64-61797caf7c0b6bca1725ad7975ed4773": 43, "linux-amd64-accel-nvidia": 29,
		"procfs-pci-infiniband-subset": 2,
	} {
		t.Run(name, func(t *testing.T) {
			root, compared := capturedRoot(t, name), 0
			topo, _ := Read(root)
			for _, d := range topo.Devices {
				path := sysDevices + "/" + d.Root.Path
				for _, up := range chain(d) {
					path += "/" + up.Address.String()
				}
				text, err := fs.ReadFile(root, path+"/modalias")
				if err != nil {
					continue
				}
				want := fmt.Sprintf("pci:v%08Xd%08Xsv%08Xsd%08Xbc%02Xsc%02Xi%02X", d.Vendor, d.Product, d.SubVendor, d.SubProduct,
					uint8(d.Class>>16), uint8(d.Class>>8), uint8(d.Class))
				got := strings.TrimSpace(string(text))
				if d.SubVendor == 0 && d.SubProduct == 0 { // snapshots have no file of them
					got = subsystem.ReplaceAllString(got, "sv00000000sd00000000")
				}
				if got != want {
					t.Errorf("%v is %s; its modalias is %s", d.Address, want, got)
				}
				compared++
			}
			if compared < least {
				t.Errorf("compared %d functions, want %d", compared, least)
			}
			total += compared
		})
	}
	t.Logf("%d functions", total)
}

var subsystem = regexp.MustCompile("sv[0-9A-F]{8}sd[0-9A-F]{8}")

// chain lists a function after the bridges above it, the topmost first.
func chain(d *Device) (all []*Device) {
	for ; d != nil; d = d.Parent {
		all = append([]*Device{d}, all...)
	}
	return all
}

// TestCorpusNVMe compares NVMe controllers with the address that each tells itself.
func TestCorpusNVMe(t *testing.T) {
	corpusFolder(t) // or skip
	for name, want := range map[string]int{"procfs-pci-infiniband-subset": 0, "tree-pcie": 3} {
		t.Run(name, func(t *testing.T) {
			root, compared := capturedRoot(t, name), 0
			topo, err := Read(root)
			if topo == nil {
				t.Fatal(err)
			}
			entries, _ := fs.ReadDir(root, "sys/class/nvme")
			for _, e := range entries {
				text, err := fs.ReadFile(root, "sys/class/nvme/"+e.Name()+"/address")
				if err != nil {
					continue
				}
				d := placed(t, topo, strings.TrimSpace(string(text)))
				if d.Kind != NVMe || !called(d, e.Name()) {
					t.Errorf("%s is %v, named %v", d.Address, d.Kind, d.NVMe)
				}
				compared++
			}
			if compared != want {
				t.Errorf("compared %d controllers, want %d", compared, want)
			}
		})
	}
}
