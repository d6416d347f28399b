package hwlocxml

import (
	"errors"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/pci"
)

// TestBadFiles are those of which nothing, or not all, can be read.
func TestBadFiles(t *testing.T) {
	const gpu = `<object type="PCIDev" pci_busid="0000:03:00.0" pci_type="0302 [10de:2330] [10de:16c1] a1"/>`
	const host = `<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[03-04]">`
	in := func(objects string) string {
		return `<topology version="2.0"><object type="Machine">` + objects + `</object></topology>`
	}
	for _, c := range []struct {
		name, text string
		devices    int // 0: no topology
		says       []string
	}{
		{"nothing", "", 0, []string{"no element"}},
		{"no XML", "GPU0\tGPU1\n", 0, []string{"no element"}},
		{"NCCL's", `<system version="1"><cpu/></system>`, 0, []string{"line 1", "<system>", "<topology>"}},
		{"a difference", `<topologydiff refname="x"/>`, 0, []string{"hwloc-patch"}},
		{"a future version", `<topology version="4.0">`, 0, []string{`"4.0"`, "export-xml-flags"}},
		{"no devices", in(""), 0, []string{"--no-io"}},
		{"of version 1.0", `<root><object type="Machine">` + host + gpu + `</object></object></root>`, 1, nil},
		{"two machines", `<topology><object type="System"><object type="Machine">` + host + gpu + `</object></object>
			<object type="Machine">` + host + strings.ReplaceAll(gpu, "03:", "04:") + `</object></object></object></topology>`, 1,
			[]string{"line 2", "more than one machine"}},
		{"twice", in(host + gpu + "\n" + gpu + `</object>`), 1, []string{"line 2", "0000:03:00.0", "at line 1 too"}},
		{"no address", in(host + gpu + `<object type="Bridge" bridge_type="1-1" pci_busid="0:x">` +
			strings.ReplaceAll(gpu, "03:", "04:") + `</object></object>`), 1, []string{`"0:x"`, "left out"}},
		{"beside the buses", in(host + strings.ReplaceAll(gpu, "0000:03", "0000:05") + `</object>`), 1, []string{"0000:[03-04]", "0000:05:00.0"}},
		{"in another domain", in(host + strings.ReplaceAll(gpu, "0000:03", "0001:03") + `</object>`), 1, []string{"0000:[03-04]", "0001:03:00.0"}},
		{"below a device", in(host + strings.Replace(gpu, "/>", ">", 1) + strings.ReplaceAll(gpu, "03:", "04:") + `</object></object>`), 1,
			[]string{"0000:04:00.0", "no bridge"}},
		{"a bridge left out", in(strings.Replace(host, "03-", "02-", 1) + gpu + "\n" + strings.ReplaceAll(gpu, ":03:", ":04:") + `</object>`), 2,
			[]string{"line 1", "0000:03:00.0", "0000:[02-04]", "left out"}},
		{"a function on a bus beside", in(host + gpu + strings.ReplaceAll(gpu, ":03:", ":04:") + `</object>`), 2, nil},
		{"no type", in(host + strings.ReplaceAll(gpu, "10de:2330", "nvidia") + `</object>`), 1, []string{"0000:03:00.0", "type of a PCI device"}},
		{"no buses of a bridge", in(host + `<object type="Bridge" bridge_type="1-1" pci_busid="0000:03:01.0" bridge_pci="0000:[4-3]">` + gpu +
			`</object></object>`), 2, []string{"0000:03:01.0", `"0000:[4-3]"`}},
		{"no link", in(host + strings.ReplaceAll(gpu, "/>", ` pci_link_speed="NaN"/>`) + `</object>`), 1, []string{`"NaN"`, "GB/s"}},
		{"no name", in(host + strings.ReplaceAll(gpu, "/>", `><object type="OSDev" osdev_type="x"/></object>`) + `</object>`), 1,
			[]string{"OSDev", "0000:03:00.0"}},
		{"no number of a node", in(`<object type="NUMANode" os_index="4294967295"/>` + host + gpu + `</object>`), 1, []string{`"4294967295"`}},
		{"a node twice", in(`<object type="NUMANode" os_index="1"/><object type="NUMANode" os_index="1"/>` + host + gpu + `</object>`), 1,
			[]string{"node 1", "at line 1 too"}},
		{"no set", in(`<object type="NUMANode" os_index="1" cpuset="0xg"/>` + host + gpu + `</object>`), 1, []string{`"0xg"`, "cpuset"}},
		{"no memory", in(`<object type="NUMANode" os_index="1" local_memory="-5"/>` + host + gpu + `</object>`), 1, []string{`"-5"`}},
		{"too deep", `<topology>` + strings.Repeat(`<object type="Group">`, 400), 0, []string{"deeper"}},
		{"deep in what is not read", in(host + gpu + `</object>` + strings.Repeat("<x>", 400)), 1, []string{"deeper"}},
		{"many errors", in(host + gpu + strings.Repeat(gpu+"\n", 1000) + `</object>`), 1, []string{"line 20,", "and 980 errors more"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			topo, err := Read(strings.NewReader(c.text))
			if (topo == nil) != (c.devices == 0) || topo != nil && len(topo.Devices) != c.devices {
				t.Fatalf("%+v, %v; want %d devices", topo, err, c.devices)
			}
			if (err != nil) != (len(c.says) > 0) {
				t.Fatalf("error %v", err)
			}
			for _, text := range c.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%v: without %q", err, text)
				}
			}
			var one *pci.Error
			if err != nil && !errors.As(err, &one) {
				t.Errorf("%T is no *pci.Error", err)
			}
		})
	}
}

// endless is a file without an end.
type endless struct {
	start, more string
	at          int
}

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		if e.at < len(e.start) {
			b[i] = e.start[e.at]
		} else {
			b[i] = e.more[(e.at-len(e.start))%len(e.more)]
		}
		e.at++
	}
	return len(b), nil
}

func TestEndless(t *testing.T) {
	for start, more := range map[string]string{
		`<topology><object name="`: "x", `<topology>`: "<info/>", `<topology><!--`: "x",
		`<topology><object type="Machine"><distances nbobjs="2" latency_base="1">`: `<latency value="1"/>`,
	} {
		topo, err := readWithin(&endless{start: start, more: more}, 256<<10, 8<<10)
		if topo != nil || err == nil || !strings.Contains(err.Error(), "the rest is not read") {
			t.Errorf("%s: %v, %v", start, topo, err)
		}
	}
}

// TestHiddenPlaces: where the file does not tell what is above, no distance is told.
func TestHiddenPlaces(t *testing.T) {
	const nodes = `<object type="NUMANode" os_index="0" cpuset="0x1" nodeset="0x1"/>`
	const gpu = `<object type="PCIDev" pci_busid="0000:01:00.0" pci_type="0302 [10de:2330] [10de:16c1] a1"/>`
	const nic = `<object type="PCIDev" pci_busid="0000:02:00.0" pci_type="0207 [15b3:1021] [15b3:0041] 00"/>`
	const near = `<object type="PCIDev" pci_busid="0000:01:01.0" pci_type="0207 [15b3:1021] [15b3:0041] 00"/>`
	const bridge = `<object type="PCIDev" pci_busid="0000:00:01.0" pci_type="0604 [8086:352a] [8086:0000] ff"/>`
	host := func(bus, objects string) string {
		return `<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[` + bus + "-" + bus + `]">` + objects + `</object>`
	}
	for _, c := range []struct {
		name, objects string
		class         pci.Class
		says          string
	}{
		{"host bridges", host("01", gpu) + host("02", nic), pci.NODE, ""},
		{"no bridges", gpu + nic, pci.ClassUnknown, "--no-bridges"},
		{"bridges without their buses", host("00", bridge) + host("01", gpu) + host("02", nic), pci.ClassUnknown, "0000:00:01.0: a bridge"},
		{"the same bus below one", host("00", bridge) + host("01", gpu+near), pci.ClassUnknown, "config space"},
		{"a bridge that leads elsewhere", host("01", gpu+near) + host("02", strings.ReplaceAll(bridge, ":00:", ":02:")), pci.PHB, ""},
		{"no number of the bus", host("x", gpu+nic), pci.ClassUnknown, "host bridge"},
	} {
		t.Run(c.name, func(t *testing.T) {
			topo, err := Read(strings.NewReader(`<topology version="2.0"><object type="Machine" cpuset="0x1" nodeset="0x1">` + nodes + c.objects + `</object></topology>`))
			if topo == nil || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v, %v; want %q", topo, err, c.says)
			}
			d := topo.Distance(topo.Of(pci.Accelerator)[0], topo.Of(pci.RDMANIC)[0])
			if d.Class != c.class {
				t.Errorf("%v, %s; want %v", d.Class, d.Reason, c.class)
			}
		})
	}
}
