package doctor

import (
	"slices"
	"strings"
	"testing"
)

func TestModules(t *testing.T) {
	const (
		loaded = "proc/modules = ib_core 1 2 mlx5_ib,ib_uverbs, Live 0x0\\nib_uverbs 1 1 - Live 0x0\\nrdma_ucm 1 0 - Live 0x0\\nmlx5_ib 1 0 - Live 0x0"
		dep    = tree + "modules.dep = kernel/drivers/infiniband/core/ib_core.ko.xz:\\nkernel/drivers/infiniband/core/ib_uverbs.ko.xz: kernel/drivers/infiniband/core/ib_core.ko.xz\\n" +
			"kernel/drivers/infiniband/core/rdma_ucm.ko.xz:\\nkernel/drivers/infiniband/hw/mlx5/mlx5_ib.ko.xz:"
		none  = "proc/modules = ext4 1 0 - Live 0x0"
		alias = tree + "modules.alias = alias pci:v000015B3d00001021sv*sd*bc*sc*i* mlx5-core\\nalias pci:v000010DEd*sv*sd*bc03sc02i00* nvidia\\nalias pci:v000010DEd*sv*sd*bc03sc*i* nouveau\\nalias usb:v1d6b* ext4"
	)
	for name, c := range map[string]struct {
		root []string
		want string
	}{
		"all run":             {[]string{nic("mlx5_core"), loaded, dep}, "ok ib_core: it runs|ok ib_uverbs|ok rdma_ucm|ok mlx5_ib|!warn|!fail|!unknown"},
		"built in":            {[]string{nic("mlx5_core"), none, tree + "modules.builtin = kernel/a/ib_core.ko\\nkernel/a/ib-uverbs.ko\\nkernel/a/rdma_ucm.ko\\nkernel/a/mlx5_ib.ko"}, "ok ib_core|ok ib_uverbs|ok mlx5_ib|!fail"},
		"only by /sys/module": {[]string{nic("mlx5_core"), none, dep, "sys/module/ib_core/", "sys/module/mlx5_ib/version = 24.10"}, "ok ib_core|ok mlx5_ib: it runs, version 24.10|fail ib_uverbs"},
		"installed, not loaded": {[]string{nic("mlx5_core"), none, dep},
			"fail ib_core: not loaded|{unsupported} $ modprobe ib_core|fail mlx5_ib: not loaded: it makes RDMA devices of what mlx5_core drives|warn rdma_ucm"},
		"not installed":                          {[]string{nic("mlx5_core"), none, tree + "modules.dep = kernel/fs/ext4.ko:"}, "fail ib_core: not installed for kernel 6.12.0|!$"},
		"built without":                          {[]string{nic("mlx5_core"), none, "boot/config-6.12.0 = CONFIG_PCI=y\\n# CONFIG_INFINIBAND is not set"}, "fail ib_core: kernel 6.12.0 is built without it|fail ib_uverbs: kernel 6.12.0 is built without"},
		"not loaded, whose option is yes":        {[]string{nic("mlx5_core"), none, dep, "boot/config-6.12.0 = CONFIG_INFINIBAND=m\\nCONFIG_INFINIBAND_USER_ACCESS=m\\nCONFIG_INFINIBAND_ADDR_TRANS=y"}, "fail ib_core: not loaded|warn rdma_ucm: not loaded"},
		"built in, by its option":                {[]string{nic("mlx5_core"), none, "boot/config-6.12.0 = CONFIG_INFINIBAND=y\\nCONFIG_INFINIBAND_USER_ACCESS=y\\nCONFIG_INFINIBAND_ADDR_TRANS=y"}, "ok ib_core|ok ib_uverbs|ok rdma_ucm"},
		"an EFA, which rdma_cm does not connect": {[]string{function(nicAt, "1d0f", "efa2", "020000", "efa"), none, dep, "sys/class/infiniband/efa_0/device/driver -> ../../../../bus/pci/drivers/efa"}, "fail ib_core|note rdma_ucm: not loaded"},
		"a software device":                      {[]string{none, dep, "sys/class/infiniband/rxe0/node_type = 1: CA"}, "fail ib_core|warn rdma_ucm: not loaded"},
		"a vendor's":                             {[]string{nic("mlx5_core"), "proc/modules = ib_core 1 2 - Live 0x0 (OE)"}, "note ib_core: it runs, and is built outside"},
		"the kernel was updated":                 {[]string{nic("mlx5_core"), none, "lib/modules/6.12.9/modules.dep = a.ko:"}, "unknown ib_core|warn kernel 6.12.0: its modules are not installed, but those of 6.12.9"},
		"kept away": {[]string{nic("mlx5_core"), none, dep, "etc/modprobe.d/no.conf = # why\\nblacklist ib-uverbs\\ninstall rdma_ucm /bin/false"},
			"fail ib_uverbs: not loaded: through it programs open RDMA devices {unsupported} $ modprobe ib_uverbs\n|warn rdma_ucm: not loaded|!modprobe rdma_ucm"},
		"kept away by the command line": {[]string{nic("mlx5_core"), none, dep, "proc/cmdline = module_blacklist=ib_uverbs modprobe.blacklist=ib_uverbs,ib_core"}, "fail ib_uverbs|$ modprobe ib_core|!modprobe ib_uverbs"},
		"nothing needs them":            {[]string{none, dep}, "note ib_core: not loaded|note rdma_ucm|!warn|!fail"},
		"a driver that knows it":        {[]string{nic(""), loaded, alias, tree + "modules.dep = k/mlx5-core.ko:"}, "warn mlx5_core: not loaded: it knows NIC0 " + nicAt + ", which has no driver $ modprobe mlx5_core"},
		"an accelerator by its class":   {[]string{gpu(""), loaded, alias, tree + "modules.dep = k/nvidia.ko:\\nk/nouveau.ko:"}, "warn nvidia: not loaded|$ modprobe nvidia\n|!nouveau"},
		"nouveau alone":                 {[]string{gpu(""), loaded, tree + "modules.alias = alias pci:v000010DEd*sv*sd*bc03sc*i* nouveau", tree + "modules.dep = k/nouveau.ko:"}, "ok ib_core|!nouveau"},
		"no driver that knows it":       {[]string{gpu(""), loaded, dep}, "ok ib_core|!modprobe|!warn"},
		"it has a driver":               {[]string{gpu("nvidia"), loaded, dep, "sys/module/nvidia/version = 570.1"}, "ok nvidia: it runs, version 570.1|!fail"},
		"a driver by another name":      {[]string{gpu("odd-name"), loaded, dep, "sys/bus/pci/drivers/odd-name/module -> ../../../../module/odd_module"}, "ok odd_module: it has GPU0"},
		"a capture without":             {[]string{nic("mlx5_core")}, "unknown modules: the capture does not hold /proc/modules"},
	} {
		t.Run(name, func(t *testing.T) {
			want(t, told(runCheck(t, machine(t, append(c.root, kernelIs)...), "modules")), c.want)
		})
	}
}

// What keeps a module away is told, and that its line is to go.
func TestModulesKeptAway(t *testing.T) {
	s := machine(t, kernelIs, nic("mlx5_core"), "proc/modules = ext4 1 0 - Live 0x0", tree+"modules.dep = a/ib_uverbs.ko:\\na/mlx5_ib.ko:",
		"etc/modprobe.d/no.conf = blacklist ib-uverbs", "proc/cmdline = module_blacklist=mlx5_ib,x")
	found := map[string]Finding{}
	for _, f := range runCheck(t, s, "modules") {
		found[f.Subject] = f
	}
	for subject, line := range map[string]string{"ib_uverbs": "/etc/modprobe.d/no.conf: blacklist ib-uverbs", "mlx5_ib": "/proc/cmdline: module_blacklist=mlx5_ib,x"} {
		f := found[subject]
		want(t, f.Remedy, "kept from being loaded")
		want(t, lines(f.Evidence), line)
	}
}

func TestNodes(t *testing.T) {
	const verbs = "sys/class/infiniband_verbs/uverbs0/ibdev = mlx5_0\nsys/class/infiniband_verbs/uverbs0/dev = 231:192\nsys/class/misc/rdma_cm/dev = 10:58\nsys/class/misc/udmabuf/dev = 10:125"
	for name, c := range map[string]struct {
		root []string
		want string
	}{
		"all there": {[]string{verbs, "dev/infiniband/uverbs0 = ", "dev/infiniband/rdma_cm = ", "dev/udmabuf = "}, "ok /dev/infiniband/uverbs0|ok /dev/infiniband/rdma_cm|!fail|!warn"},
		"none there": {[]string{verbs, "dev/null = "},
			"fail /dev/infiniband/uverbs0: it is not there: programs open RDMA device mlx5_0 through it {permission}|warn /dev/infiniband/rdma_cm|note /dev/udmabuf"},
		"accelerators' ": {[]string{gpu("nvidia"), "dev/nvidiactl = ", "proc/driver/nvidia/gpus/0000:02:00.0/information = Model: H100\\nDevice Minor: \\t 3"},
			"ok /dev/nvidiactl|warn /dev/nvidia3: it is not there: CUDA opens GPU 0000:02:00.0|$ nvidia-modprobe -c 3\n|warn /dev/nvidia-uvm|$ nvidia-modprobe -u -c 0\n"},
		"amd's": {[]string{function(gpuAt, "1002", "74a1", "120000", "amdgpu"), "dev/null = ", "sys/class/kfd/kfd/dev = 1:1", "sys/class/drm/renderD128/dev = 226:128"}, "warn /dev/kfd|warn /dev/dri/renderD128"},
		"one of two, as a container is given": {[]string{verbs, "sys/class/infiniband_verbs/uverbs1/ibdev = mlx5_1", "dev/infiniband/uverbs1 = ", "dev/infiniband/rdma_cm = "},
			"ok /dev/infiniband/uverbs1|note /dev/infiniband/uverbs0: it is not there, while others of its kind are|!fail|!$"},
		"one GPU of two": {[]string{gpu("nvidia"), "dev/nvidia1 = ", "proc/driver/nvidia/gpus/0000:02:00.0/information = Device Minor: 0", "proc/driver/nvidia/gpus/0000:03:00.0/information = Device Minor: 1"},
			"ok /dev/nvidia1|note /dev/nvidia0: it is not there, while others|warn /dev/nvidiactl: it is not there: CUDA opens it $ nvidia-modprobe -c 255\n"},
		"a capture without": {[]string{verbs}, "unknown device nodes: the capture does not hold /dev"},
	} {
		t.Run(name, func(t *testing.T) {
			want(t, told(runCheck(t, machine(t, c.root...), "device-nodes")), c.want)
		})
	}
	// Inside a container the way to a node is another one.
	found := runCheck(t, machine(t, verbs, "dev/null = ", ".dockerenv = "), "device-nodes")
	want(t, found[0].Remedy, "--device=/dev/infiniband")
	// Of other devices than those that are asked about nothing is told.
	s := machine(t, verbs, "dev/null = ")
	s.Devices = []string{"mlx5_1"}
	want(t, told(runCheck(t, s, "device-nodes")), "rdma_cm|!uverbs0")
	// A device that is asked about is missed, whichever others there are.
	s = machine(t, verbs, "sys/class/infiniband_verbs/uverbs1/ibdev = mlx5_1", "dev/infiniband/uverbs1 = ")
	s.Devices = []string{"mlx5_0", "mlx5_1"}
	want(t, told(runCheck(t, s, "device-nodes")), "fail /dev/infiniband/uverbs0|ok /dev/infiniband/uverbs1")
}

func TestNVIDIAMinor(t *testing.T) {
	for text, want := range map[string]string{"Model: A\nDevice Minor: \t 12\n": "12", "Device Minor: x": "", "": "", "Device Minor: 70000": ""} {
		if got, ok := minorOf(text); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %v", text, got, ok)
		}
	}
}

// modprobe takes files that end in .conf, and of a name the first folder's alone.
func TestModulesKeptAwayByTheFilesThatCount(t *testing.T) {
	base := []string{kernelIs, nic("mlx5_core"), "proc/modules = ext4 1 0 - Live 0x0", tree + "modules.dep = a/mlx5_ib.ko:"}
	for name, c := range map[string]struct {
		files []string
		kept  bool
	}{
		"one that counts":     {[]string{"usr/lib/modprobe.d/a.conf = blacklist mlx5_ib"}, true},
		"another's leftover":  {[]string{"etc/modprobe.d/a.conf.dpkg-old = blacklist mlx5_ib"}, false},
		"one that is hidden":  {[]string{"usr/lib/modprobe.d/a.conf = blacklist mlx5_ib", "etc/modprobe.d/a.conf = # none"}, false},
		"one of another name": {[]string{"usr/lib/modprobe.d/a.conf = blacklist mlx5_ib", "etc/modprobe.d/b.conf = # none"}, true},
	} {
		found := runCheck(t, machine(t, append(c.files, base...)...), "modules")
		i := slices.IndexFunc(found, func(f Finding) bool { return f.Subject == "mlx5_ib" })
		if kept := i >= 0 && strings.Contains(found[i].Remedy, "kept from being loaded"); i < 0 || kept != c.kept {
			t.Errorf("%s: %s", name, told(found))
		}
	}
}
