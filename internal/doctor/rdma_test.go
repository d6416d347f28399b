package doctor

import (
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/inventory"
)

const (
	other    = "0000:01:00.1" // the NIC card's second function
	farOther = "0000:03:00.0"
	ib       = "InfiniBand"
	hdr      = "200 Gb/sec (4X HDR)"
)

func TestDevices(t *testing.T) {
	const modules, class = "sys/module/mlx5_core/\n", "sys/class/infiniband/\n"
	lacks := nic("mlx5_core") + "\n" + modules + class
	cases(t, "rdma-devices", []struct{ name, system, wants string }{
		{"one", nic("mlx5_core") + "\n" + rdma("mlx5_0", nicAt, "4: ACTIVE", hdr, ib), "ok mlx5_0: driver mlx5, 0000:01:00.0, firmware 28.39.1002\n|!fail|!warn"},
		{"no NIC", gpu("nvidia"), "fail : there is no RDMA device, and no NIC that is known to be able to have one {no-device}"},
		{"no driver", nic("") + "\n" + gpu("nvidia"), "fail NIC0 (0000:01:00.0): it could have an RDMA device, and no driver is bound to it {no-device} $ modprobe mlx5_core\n|!there is no RDMA device"},
		{"no driver of a ConnectX-3", function(nicAt, "15b3", "1003", "020000", "") + "\n" + gpu("nvidia"), "no driver is bound to it {no-device} $ modprobe mlx4_core\n"},
		{"an EFA function without its driver", function(nicAt, "1d0f", "efa1", "020000", "") + "\n" + gpu("nvidia"), "fail NIC0|no driver is bound to it {no-device} $ modprobe efa\n"},
		{"drivers are not captured", nic(""), "unknown NIC0 (0000:01:00.0)|whether a driver is bound is not in the capture|!fail"},
		{"RDMA module not loaded", lacks, "fail NIC0 (0000:01:00.0): its RDMA module mlx5_ib is not loaded {no-device} $ modprobe mlx5_ib\n"},
		{"RDMA module that may not be loaded", lacks + "etc/modprobe.d/a.conf = install mlx5_ib /bin/false", "fail NIC0 (0000:01:00.0): its RDMA module mlx5_ib is not loaded {no-device}\n|!$"},
		{"RDMA switched off", lacks + "sys/module/mlx5_ib/", "fail NIC0 (0000:01:00.0): its driver mlx5_core made no RDMA device {no-device}\n"},
		{"left out of the capture", nic("mlx5_core"), "unknown NIC0 (0000:01:00.0): its driver mlx5_core made no RDMA device, or the capture left it out|!fail"},
		{"given to a guest", nic("vfio-pci"), "note NIC0 (0000:01:00.0): it is given away to vfio-pci|fail : there is no RDMA device"},
		{"one of two has none", nic("mlx5_core") + "\n" + rdma("mlx5_0", nicAt, "4: ACTIVE", hdr, ib) + "\n" + modules + "sys/module/mlx5_ib/\n" +
			function(farOther, "15b3", "1021", "020700", "mlx5_core"), "ok mlx5_0|warn NIC1 (0000:03:00.0): its driver mlx5_core made no RDMA device\n|!fail"},
		{"an ordinary NIC that can", function(nicAt, "8086", "1592", "020000", "ice"), "fail : there is no RDMA device; some of its NICs can do RDMA, others of the same driver cannot {no-device} $ modprobe irdma\n"},
	})
	s := machine(t, nic("mlx5_core"), rdma("mlx5_0", nicAt, "4: ACTIVE", hdr, ib))
	s.Devices = []string{"mlx5_7"}
	want(t, told(runCheck(t, s, "rdma-devices")), "fail mlx5_7: there is no RDMA device of this name {no-device}|!mlx5_0")
}

// What a kernel without RDMA hardware can have is proposed where it can be had.
func TestDevicesThatCouldBeMade(t *testing.T) {
	s := running(t, gpu("nvidia"), kernelIs+tree+"modules.dep = kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz: kernel/x.ko", netdev("eth0", "0x1003", "up", "1", 1500))
	f := s.noDevice(nil)
	want(t, told([]Finding{f}), "!$") // which interface, only who knows the network can tell
	want(t, f.Remedy, "this kernel's rxe on|rdma link add rxe0 type rxe netdev INTERFACE|!siw")
	if f = running(t, gpu("nvidia"), kernelIs).noDevice(nil); len(f.Commands) != 0 || !strings.Contains(f.Remedy, "peerdirect demo") || strings.Contains(f.Remedy, "rxe") {
		t.Errorf("%+v", f)
	}
}

func TestPorts(t *testing.T) {
	up, gpuUp := rdma("mlx5_0", nicAt, "4: ACTIVE", hdr, ib), gpu("nvidia")
	down := func(name, address, state, phys string) string {
		return strings.Replace(rdma(name, address, state, "10 Gb/sec (4X SDR)", ib), "5: LinkUp", phys, 1)
	}
	second := function(other, "15b3", "1021", "020700", "mlx5_core")
	far := function(farOther, "15b3", "1021", "020700", "mlx5_core")
	eth := func(flags, state, carrier string) string {
		return nic("mlx5_core") + "\n" + strings.Replace(rdma("mlx5_0", nicAt, "1: DOWN", hdr, "Ethernet", gid(0, noGID, "RoCE v2", "eth0")...), "5: LinkUp", "3: Disabled", 1) + "\n" +
			netdev("eth0", flags, state, carrier, 1500)
	}
	cases(t, "rdma-ports", []struct{ name, system, wants string }{
		{"active", nic("mlx5_core") + "\n" + up, "ok mlx5_0: the port is active\n"},
		{"not captured", nic("mlx5_core") + "\nsys/class/infiniband/mlx5_0/node_type = 1: CA", "unknown mlx5_0: the capture does not hold"},
		{"no cable", nic("mlx5_core") + "\n" + down("mlx5_0", nicAt, "1: DOWN", "2: Polling"), "fail mlx5_0: the port is DOWN: it finds no partner (POLLING) {other}\n"},
		{"no subnet manager", nic("mlx5_core") + "\n" + down("mlx5_0", nicAt, "2: INIT", "5: LinkUp"), "fail mlx5_0: the link is up and no subnet manager has set the port up (INIT) {other}\n"},
		{"a subnet manager that stopped", nic("mlx5_core") + "\n" + down("mlx5_0", nicAt, "3: ARMED", "5: LinkUp"), "fail mlx5_0|(ARMED) {other}\n"},
		{"the card's other port is not plugged", nic("mlx5_core") + "\n" + up + "\n" + second + "\n" + down("mlx5_1", other, "1: DOWN", "2: Polling") + "\n" + gpuUp,
			"ok mlx5_0|note mlx5_1: the port is DOWN|!fail|!warn"},
		{"another card that is no accelerator's", nic("mlx5_core") + "\n" + up + "\n" + far + "\n" + down("mlx5_1", farOther, "1: DOWN", "2: Polling"), "note mlx5_1|!fail|!warn"},
		{"one of an accelerator's two rails", nic("mlx5_core") + "\n" + up + "\n" + far + "\n" + down("mlx5_1", farOther, "1: DOWN", "2: Polling") + "\n" + gpuUp,
			"warn mlx5_1: the port is DOWN: it finds no partner (POLLING)\n|!fail"},
		{"the interface is down", eth("0x1002", "down", "0"), "fail mlx5_0: its network interface is down {other} $ ip link set eth0 up\n"},
		{"active without a carrier", roceWithout(), "warn mlx5_0: its network interface has no carrier, though the port is ACTIVE\n|!fail"},
		{"no carrier", eth("0x1003", "down", "0"), "fail mlx5_0: its network interface has no carrier {other}\n"},
	})
	s := machine(t, nic("mlx5_core"), up, second, down("mlx5_1", other, "1: DOWN", "2: Polling"))
	s.Devices = []string{"mlx5_1"}
	want(t, told(runCheck(t, s, "rdma-ports")), "fail mlx5_1|!mlx5_0")
}

// roceWithout is an active port whose interface has no link.
func roceWithout() string {
	return strings.Replace(roce(1500, gid(1, ipv4GID, "RoCE v2", "eth0")), "/carrier = 1", "/carrier = 0", 1)
}

func TestRates(t *testing.T) {
	far := function(farOther, "15b3", "1021", "020700", "mlx5_core")
	link := func(speed, width string) string {
		at := "sys/devices/pci0000:00/0000:00:01.0/" + nicAt
		return "\n" + at + "/current_link_speed = " + speed + "\n" + at + "/current_link_width = " + width +
			"\n" + at + "/max_link_speed = " + speed + "\n" + at + "/max_link_width = " + width
	}
	one := func(rate, layer string) string {
		return nic("mlx5_core") + "\n" + rdma("mlx5_0", nicAt, "4: ACTIVE", rate, layer)
	}
	cases(t, "rdma-rate", []struct{ name, system, wants string }{
		{"as it should", one(hdr, ib) + link("16.0 GT/s PCIe", "16"), "ok mlx5_0: it runs at 200 Gb/s\n|!note"},
		{"behind a narrow bus", one(hdr, ib) + link("8.0 GT/s PCIe", "16"), "note mlx5_0: the port's 200 Gb/s stand behind a PCI Express link of 126 Gb/s\n|!warn"},
		{"one lane", one("50 Gb/sec (1X HDR)", ib), "warn mlx5_0: one lane of the link is up (1X)"},
		{"two lanes of a split cable", one("100 Gb/sec (2X HDR)", ib), "ok mlx5_0|!warn"},
		{"one lane of Ethernet is a rate", one("25 Gb/sec (1X EDR)", "Ethernet"), "ok mlx5_0: it runs at 25 Gb/s\n|!warn"},
		{"slower than its equal", one("100 Gb/sec (4X EDR)", ib) + "\n" + far + "\n" + rdma("mlx5_1", farOther, "4: ACTIVE", hdr, ib),
			"warn mlx5_0: it runs at 100 Gb/s, others of its kind in this machine at 200 Gb/s\n|ok mlx5_1"},
		{"another kind is no equal", one("100 Gb/sec (4X EDR)", ib) + "\n" + function(farOther, "15b3", "101b", "020700", "mlx5_core") + "\n" + rdma("mlx5_1", farOther, "4: ACTIVE", hdr, ib), "!warn"},
		{"down", nic("mlx5_core") + "\n" + rdma("mlx5_0", nicAt, "1: DOWN", "10 Gb/sec (4X SDR)", ib), "!mlx5_0"},
	})
}

func TestLibrary(t *testing.T) {
	library, transport, seen, unseen := "/usr/lib/libibverbs.so.1", "InfiniBand", "mlx5_0", "efa_0"
	s := running(t, "etc/os-release = ID=ubuntu\\nID_LIKE=debian", "sys/class/infiniband_verbs/uverbs3/ibdev = mlx5_3")
	s.rdma.gathered = true
	s.rdma.all = inventory.Inventory{Library: &library, Devices: []inventory.Device{{Name: seen, Transport: &transport}, {Name: unseen}}}
	want(t, told(runCheck(t, s, "rdma-library")), "ok mlx5_0: libibverbs shows it\n|fail efa_0: libibverbs does not show it: the provider of its driver is missing, or older than the driver {unsupported} $ apt-get install -y libibverbs1 ibverbs-providers librdmacm1\n")
	// What libibverbs leaves out for want of a node is not the provider's.
	s.rdma.all.Devices[1].Name = "mlx5_3"
	want(t, told(runCheck(t, s, "rdma-library")), "note mlx5_3: its node is not there|!fail|!$")
	s.rdma.all.Devices[1].Name = unseen
	s.rdma.all.Devices[0].Transport = nil
	s.rdma.all.Problems = []inventory.Problem{{Part: "verbs", Error: "too many open files"}}
	want(t, told(runCheck(t, s, "rdma-library")), "unknown mlx5_0, efa_0: libibverbs listed no devices\n|!fail")
	s.rdma.all.Library = nil
	want(t, told(runCheck(t, s, "rdma-library")), "fail libibverbs: libibverbs cannot be loaded: nothing opens the RDMA devices here {unsupported} $ apt-get install -y libibverbs1|!mlx5_0")
	s.rdma.all.Devices = nil
	want(t, told(runCheck(t, s, "rdma-library")), "!libibverbs")
}

// What a queue pair's end counts is no trouble; what is counted of its own accord is.
func TestCountersOfTeardown(t *testing.T) {
	of := func(counter string) string {
		return nic("mlx5_core") + "\n" + rdma("mlx5_0", nicAt, "4: ACTIVE", hdr, ib, "hw_counters/packet_seq_err = 0", "hw_counters/"+counter+" = 7")
	}
	cases(t, "rdma-counters", []struct{ name, system, wants string }{
		{"flushed requests", of("req_cqe_error"), "ok mlx5_0: no error counter has counted (1 counter)"},
		{"flushed responses", of("resp_cqe_error"), "ok mlx5_0: no error counter has counted (1 counter)"},
		{"refused requests", of("req_remote_access_errors"), "note mlx5_0|req_remote_access_errors 7"},
	})
}
