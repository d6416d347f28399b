package doctor

import "testing"

func TestSystemChecks(t *testing.T) {
	const (
		built   = "CONFIG_INFINIBAND=m\\nCONFIG_INFINIBAND_USER_ACCESS=m\\nCONFIG_INFINIBAND_ADDR_TRANS=y\\nCONFIG_DMA_SHARED_BUFFER=y\\nCONFIG_PCI_P2PDMA=y\\nCONFIG_UDMABUF=y\\nCONFIG_INFINIBAND_ON_DEMAND_PAGING=y\\nCONFIG_BPF_SYSCALL=y\\nCONFIG_DEBUG_INFO_BTF=y"
		without = "CONFIG_PCI=y\\n# CONFIG_PCI_P2PDMA is not set\\n# CONFIG_DMA_SHARED_BUFFER is not set\\n# CONFIG_DMABUF_MOVE_NOTIFY is not set"
		clocks  = "sys/devices/system/clocksource/clocksource0/"
		policy  = "sys/devices/system/cpu/cpufreq/policy0/"
		state   = "sys/devices/system/cpu/cpu0/cpuidle/state"
		pages   = "sys/kernel/mm/hugepages/hugepages-2048kB/"
	)
	for _, c := range []struct {
		check, name string
		root        []string
		want        string
	}{
		{"kernel-options", "all there", []string{kernelIs, gpu("nvidia"), "boot/config-6.12.0 = " + built},
			"ok CONFIG_PCI_P2PDMA|ok CONFIG_INFINIBAND_USER_ACCESS: built as a module|!note|!warn|!fail|!MOVE_NOTIFY"},
		{"kernel-options", "none there", []string{kernelIs, function(gpuAt, "1002", "74a1", "120000", "amdgpu"), "boot/config-6.12.0 = " + without},
			"fail CONFIG_INFINIBAND_USER_ACCESS|fail CONFIG_DMA_SHARED_BUFFER|{unsupported}|warn CONFIG_PCI_P2PDMA|note CONFIG_DMABUF_MOVE_NOTIFY|note CONFIG_DEBUG_INFO_BTF"},
		{"kernel-options", "none there, and no accelerator", []string{kernelIs, nic("mlx5_core"), "lib/modules/6.12.0/config = " + without},
			"fail CONFIG_INFINIBAND_USER_ACCESS|note CONFIG_PCI_P2PDMA|note CONFIG_DMA_SHARED_BUFFER|!warn CONFIG_PCI"},
		{"kernel-options", "none there, and a driver that asks for no way", []string{kernelIs, gpu("nvidia"), "boot/config-6.12.0 = " + without}, "fail CONFIG_DMA_SHARED_BUFFER|note CONFIG_PCI_P2PDMA"},
		{"kernel-options", "none there, and nothing that needs them", []string{kernelIs, "boot/config-6.12.0 = " + without}, "note CONFIG_INFINIBAND_USER_ACCESS|!warn|!fail"},
		{"kernel-options", "another kernel's", []string{kernelIs, "boot/config-6.1.0 = " + built}, "unknown : the kernel's configuration cannot be read"},
		{"kernel-options", "no configuration", []string{kernelIs, "boot/config-6.12.0 = nonsense"}, "unknown"},

		{"command-line", "nothing", []string{"proc/cmdline = root=/dev/sda1 quiet"}, "ok command line"},
		{"command-line", "a passthrough", []string{"proc/cmdline = intel_iommu=on iommu=pt pci=realloc"}, "note intel_iommu=on|note iommu=pt: devices of the host see physical|note pci=realloc|!warn"},
		{"command-line", "no interrupts", []string{"proc/cmdline = pci=nomsi pcie_aspm=force"}, "warn pci=nomsi|warn pcie_aspm=force"},
		{"command-line", "a capture without", nil, "unknown command line: the capture does not hold /proc/cmdline"},

		{"huge-pages", "none", []string{pages + "nr_hugepages = 0", pages + "free_hugepages = 0"}, "note huge pages: none are reserved"},
		{"huge-pages", "some", []string{pages + "nr_hugepages = 512", pages + "free_hugepages = 12"}, "ok huge pages: reserved: 512 of 2048kB (12 free)"},
		{"huge-pages", "a capture without", nil, "unknown"},

		{"clock-source", "the processor's", []string{clocks + "current_clocksource = tsc"}, "ok clock source: tsc"},
		{"clock-source", "a hypervisor's", []string{clocks + "current_clocksource = kvm-clock"}, "note clock source: kvm-clock"},
		{"clock-source", "a device, with a choice", []string{clocks + "current_clocksource = hpet", clocks + "available_clocksource = hpet tsc"},
			"warn clock source: hpet|$ echo tsc >/sys/devices/system/clocksource/clocksource0/current_clocksource"},
		{"clock-source", "a device, without", []string{clocks + "current_clocksource = acpi_pm", clocks + "available_clocksource = acpi_pm"}, "warn clock source: acpi_pm|!$"},
		{"clock-source", "a new one", []string{clocks + "current_clocksource = sundial"}, "unknown clock source: sundial"},
		{"clock-source", "a capture without", nil, "unknown"},

		{"frequency", "the highest", []string{policy + "scaling_governor = performance"}, "ok frequency: governor performance on 1"},
		{"frequency", "after load", []string{policy + "scaling_governor = schedutil"}, "note frequency: governor schedutil"},
		{"frequency", "the lowest", []string{policy + "scaling_governor = powersave", policy + "scaling_driver = acpi-cpufreq"}, "warn frequency|echo performance"},
		{"frequency", "the hardware's", []string{policy + "scaling_governor = powersave", policy + "scaling_driver = intel_pstate"}, "note frequency"},
		{"frequency", "nobody's", []string{"sys/devices/system/cpu/"}, "note frequency: the kernel does not govern"},
		{"frequency", "a capture without", nil, "unknown"},

		{"idle-states", "shallow", []string{state + "0/latency = 0", state + "0/name = POLL", state + "1/latency = 2", state + "1/name = C1"}, "ok idle states: waking from the deepest, C1, takes 2 us"},
		{"idle-states", "deep", []string{state + "3/latency = 133", state + "3/name = C6"}, "note idle states: waking from the deepest, C6, takes 133 us"},
		{"idle-states", "deep and off", []string{state + "1/latency = 2", state + "1/name = C1", state + "3/latency = 133", state + "3/name = C6", state + "3/disable = 1"}, "ok idle states|C1"},
		{"idle-states", "a guest", []string{"sys/devices/system/cpu/cpu0/"}, "note idle states: the kernel has none"},
		{"idle-states", "a capture without", nil, "unknown"},

		{"numa-balancing", "one node", []string{"sys/devices/system/node/node0/", "proc/sys/kernel/numa_balancing = 1"}, "ok NUMA balancing: there is one node"},
		{"numa-balancing", "on", []string{"sys/devices/system/node/node0/", "sys/devices/system/node/node1/", "proc/sys/kernel/numa_balancing = 1"}, "warn NUMA balancing|$ sysctl -w kernel.numa_balancing=0"},
		{"numa-balancing", "off", []string{"sys/devices/system/node/node0/", "sys/devices/system/node/node1/", "proc/sys/kernel/numa_balancing = 0"}, "ok NUMA balancing: off"},
		{"numa-balancing", "a capture without", nil, "unknown"},

		{"rdma-namespaces", "shared", []string{"sys/module/ib_core/parameters/netns_mode = Y"}, "ok network namespaces: shared"},
		{"rdma-namespaces", "exclusive, with a device", []string{"sys/module/ib_core/parameters/netns_mode = N", "sys/class/infiniband/mlx5_0/"}, "note network namespaces: exclusive"},
		{"rdma-namespaces", "exclusive, without", []string{"sys/module/ib_core/parameters/netns_mode = N"}, "warn network namespaces: exclusive, and no RDMA device"},
		{"rdma-namespaces", "odd", []string{"sys/module/ib_core/parameters/netns_mode = perhaps"}, "unknown"},
		{"rdma-namespaces", "no RDMA", []string{"sys/module/"}, "!network"},
		{"rdma-namespaces", "a capture without", nil, "unknown"},

		{"kernel-tracing", "open", []string{"sys/kernel/btf/vmlinux = x", "sys/kernel/security/lockdown = [none] integrity confidentiality",
			"proc/sys/kernel/unprivileged_bpf_disabled = 2", "proc/sys/kernel/perf_event_paranoid = 3"},
			"ok lockdown: off|ok types (BTF)|ok perf events: kernel.perf_event_paranoid is 3|ok unprivileged BPF"},
		{"kernel-tracing", "locked", []string{"sys/kernel/btf/", "sys/kernel/security/lockdown = none integrity [confidentiality]"}, "warn lockdown: confidentiality|note types (BTF)|unknown perf events"},
		{"kernel-tracing", "half locked", []string{"sys/kernel/security/lockdown = none [integrity] confidentiality"}, "note lockdown: integrity|unknown types"},
	} {
		t.Run(c.check+"/"+c.name, func(t *testing.T) {
			want(t, told(runCheck(t, machine(t, c.root...), c.check)), c.want)
		})
	}
}

// A file that may not be read is not one that a capture lacks: it is told.
func TestRunningMachineTellsWhatItCannotRead(t *testing.T) {
	for _, name := range []string{"clock-source", "huge-pages", "command-line", "kernel-options"} {
		for _, f := range runCheck(t, running(t, "sys/devices/"), name) {
			if f.Verdict != Unknown || f.missing {
				t.Errorf("%s: %+v", name, f)
			}
		}
		for _, f := range runCheck(t, machine(t, "sys/devices/"), name) {
			if f.Verdict != Unknown || !f.missing {
				t.Errorf("%s of a capture: %+v", name, f)
			}
		}
	}
}
