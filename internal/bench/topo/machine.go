package main

import (
	"fmt"
	"slices"
	"strings"
)

// The machine has two sockets, each with four root complexes, each of these with a
// switch that has an accelerator, four NICs and an NVMe drive below it.
const (
	sockets    = 2
	roots      = 8
	nicsOfRoot = 4
	vfsOfNIC   = 5
	// PCI functions altogether; what is left besides the above are those of the
	// chipset on the root buses.
	functions = 300
)

// machine writes the /sys and /proc of a server with that many processors, two
// threads to a core where there are enough, in the files and the words of Linux 6.12:
// everything that lstopo and peerdirect read of one.
func machine(dir string, cpus int) error {
	t := newTree(dir)
	m := &layout{cpus: cpus, threads: 2}
	if cpus < 2*sockets {
		m.threads = 1
	}
	m.processors(t)
	m.memory(t)
	m.system(t)
	for _, f := range m.pci() {
		f.write(t, m)
	}
	return t.err
}

type layout struct{ cpus, threads, groups int }

// group gives the next IOMMU group.
func (m *layout) group() int { m.groups++; return m.groups - 1 }

// The threads of core n are n, n+cores, ….
func (m *layout) cores() int { return m.cpus / m.threads }

func (m *layout) socketOf(cpu int) int { return cpu % m.cores() * sockets / m.cores() }

func (m *layout) of(keep func(cpu int) bool) (set []int) {
	for c := range m.cpus {
		if keep(c) {
			set = append(set, c)
		}
	}
	return set
}

func (m *layout) socket(s int) []int {
	return m.of(func(c int) bool { return m.socketOf(c) == s })
}

// list spells a set of processors as 0-3,8.
func list(set []int) string {
	var parts []string
	for i := 0; i < len(set); {
		end := i
		for end+1 < len(set) && set[end+1] == set[end]+1 {
			end++
		}
		if part := fmt.Sprint(set[i]); end == i {
			parts = append(parts, part)
		} else {
			parts = append(parts, fmt.Sprintf("%s-%d", part, set[end]))
		}
		i = end + 1
	}
	return strings.Join(parts, ",")
}

// mask spells it as words of 32 bits, the highest first.
func (m *layout) mask(set []int) string {
	words := make([]uint32, (m.cpus+31)/32)
	for _, c := range set {
		words[c/32] |= 1 << (c % 32)
	}
	var parts []string
	for _, w := range slices.Backward(words) {
		parts = append(parts, fmt.Sprintf("%08x", w))
	}
	return strings.Join(parts, ",")
}

func (m *layout) processors(t *tree) {
	const top = "sys/devices/system/cpu"
	all := list(m.of(func(int) bool { return true }))
	for _, name := range []string{"online", "possible", "present"} {
		t.file(top+"/"+name, "%s", all)
	}
	var info strings.Builder
	for c := range m.cpus {
		core, socket := c%m.cores(), m.socketOf(c)
		same := m.of(func(o int) bool { return o%m.cores() == core })
		dir := fmt.Sprintf("%s/cpu%d", top, c)
		if c > 0 {
			t.file(dir+"/online", "1")
		}
		t.file(dir+"/topology/core_id", "%d", core%(m.cores()/sockets))
		t.file(dir+"/topology/die_id", "0")
		t.file(dir+"/topology/cluster_id", "65535")
		t.file(dir+"/topology/physical_package_id", "%d", socket)
		for name, set := range map[string][]int{
			"core_cpus": same, "thread_siblings": same, "cluster_cpus": same,
			"die_cpus": m.socket(socket), "package_cpus": m.socket(socket), "core_siblings": m.socket(socket),
		} {
			t.file(dir+"/topology/"+name, "%s", m.mask(set))
			t.file(dir+"/topology/"+name+"_list", "%s", list(set))
		}
		t.file(dir+"/cpufreq/cpuinfo_max_freq", "3800000")
		t.file(dir+"/cpufreq/cpuinfo_min_freq", "800000")
		t.file(dir+"/cpufreq/base_frequency", "2000000")
		m.caches(t, dir, core, socket, same)
		fmt.Fprintf(&info, "processor\t: %d\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"+
			"model name\t: Intel(R) Xeon(R) Platinum 8488C\nstepping\t: 8\nphysical id\t: %d\ncore id\t\t: %d\n"+
			"flags\t\t: %s\n\n", c, socket, core%(m.cores()/sockets), flags)
	}
	t.bytes("proc/cpuinfo", []byte(info.String()))
}

const flags = "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse sse2 ss ht " +
	"syscall nx pdpe1gb rdtscp lm constant_tsc rep_good nopl xtopology nonstop_tsc cpuid aperfmperf pni pclmulqdq " +
	"monitor ssse3 fma cx16 pcid sse4_1 sse4_2 x2apic movbe popcnt aes xsave avx f16c rdrand lahf_lm abm " +
	"3dnowprefetch fsgsbase bmi1 avx2 smep bmi2 erms invpcid avx512f avx512dq rdseed adx smap clflushopt clwb " +
	"avx512cd sha_ni avx512bw avx512vl xsaveopt xsavec xgetbv1 xsaves avx512_bf16 amx_bf16 amx_tile amx_int8"

func (m *layout) caches(t *tree, dir string, core, socket int, same []int) {
	for i, c := range []struct {
		level      int
		kind, size string
		sets, ways int
		id         int
		shared     []int
	}{
		{1, "Data", "48K", 64, 12, core, same},
		{1, "Instruction", "32K", 64, 8, core, same},
		{2, "Unified", "2048K", 2048, 16, core, same},
		{3, "Unified", "107520K", 114688, 15, socket, m.socket(socket)},
	} {
		at := fmt.Sprintf("%s/cache/index%d/", dir, i)
		t.file(at+"level", "%d", c.level)
		t.file(at+"type", "%s", c.kind)
		t.file(at+"size", "%s", c.size)
		t.file(at+"number_of_sets", "%d", c.sets)
		t.file(at+"ways_of_associativity", "%d", c.ways)
		t.file(at+"coherency_line_size", "64")
		t.file(at+"physical_line_partition", "1")
		t.file(at+"id", "%d", c.id)
		t.file(at+"shared_cpu_map", "%s", m.mask(c.shared))
		t.file(at+"shared_cpu_list", "%s", list(c.shared))
	}
}

func (m *layout) memory(t *tree) {
	const top = "sys/devices/system/node"
	const kB = 1 << 30 // of a node: 1 TiB
	for _, name := range []string{"online", "possible", "has_cpu", "has_memory"} {
		t.file(top+"/"+name, "0-%d", sockets-1)
	}
	for n := range sockets {
		dir := fmt.Sprintf("%s/node%d/", top, n)
		t.file(dir+"cpulist", "%s", list(m.socket(n)))
		t.file(dir+"cpumap", "%s", m.mask(m.socket(n)))
		t.file(dir+"distance", "%s", []string{"10 21", "21 10"}[n])
		t.file(dir+"meminfo", "Node %d MemTotal:       %d kB\nNode %d MemFree:        %d kB", n, kB, n, kB/2)
		for _, size := range []string{"2048kB", "1048576kB"} {
			t.file(dir+"hugepages/hugepages-"+size+"/nr_hugepages", "0")
		}
	}
	for _, size := range []string{"2048kB", "1048576kB"} {
		t.file("sys/kernel/mm/hugepages/hugepages-"+size+"/nr_hugepages", "0")
	}
	t.file("proc/meminfo", "MemTotal:       %d kB\nMemFree:        %d kB", sockets*kB, sockets*kB/2)
}

func (m *layout) system(t *tree) {
	for name, text := range map[string]string{
		"sys_vendor": "Vendor", "product_name": "GPU server", "product_version": "1",
		"board_vendor": "Vendor", "board_name": "Board", "board_version": "1", "board_asset_tag": "",
		"chassis_vendor": "Vendor", "chassis_type": "23", "chassis_version": "1", "chassis_asset_tag": "",
		"bios_vendor": "Vendor", "bios_version": "1.0", "bios_date": "01/01/2026",
	} {
		t.file("sys/devices/virtual/dmi/id/"+name, "%s", text)
	}
	t.link("sys/class/dmi/id", "sys/devices/virtual/dmi/id")
	t.file("proc/mounts", "sysfs /sys sysfs rw,nosuid,nodev,noexec,relatime 0 0")
	t.file("proc/version", "Linux version 6.12.0 (builder@host) (gcc 14.2.0) #1 SMP")
	t.file("proc/sys/kernel/osrelease", "6.12.0")
	t.file("proc/sys/kernel/arch", "x86_64")
	for i := range roots {
		unit := fmt.Sprintf("sys/devices/virtual/iommu/dmar%d", i)
		t.file(unit+"/intel-iommu/version", "6:0")
		t.link(fmt.Sprintf("sys/class/iommu/dmar%d", i), unit)
	}
}
