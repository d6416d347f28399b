package doctor

import (
	"strings"
	"testing"
)

func TestGIDs(t *testing.T) {
	v2 := gid(1, ipv4GID, "RoCE v2", "eth0")
	second := function(farOther, "15b3", "1021", "020700", "mlx5_core")
	cases(t, "rdma-gids", []struct{ name, system, wants string }{
		{"RoCE v2 with an address", roce(1500, gid(0, localGID, "IB/RoCE v1", "eth0"), v2), "ok mlx5_0: GID index 1, 10.0.0.1\n"},
		{"none", roce(1500, gid(0, noGID, "RoCE v2", "eth0")), "warn mlx5_0: the port is active and has no GID"},
		{"RoCE v1 alone", roce(1500, gid(0, ipv4GID, "IB/RoCE v1", "eth0")), "warn mlx5_0: it has GIDs for RoCE v1 only"},
		{"link-local alone", roce(1500, gid(0, localGID, "IB/RoCE v1", "eth0"), gid(1, localGID, "RoCE v2", "eth0")), "warn mlx5_0: its only GIDs are link-local"},
		{"types not captured", roce(1500, []string{"gids/0 = " + ipv4GID}), "unknown mlx5_0: whether a GID is for RoCE v2 is not told\n"},
		{"InfiniBand's own is link-local", nic("mlx5_core") + "\n" + rdma("mlx5_0", nicAt, "4: ACTIVE", hdr, ib, gid(0, localGID, "IB/RoCE v1", "")...), "ok mlx5_0: GID index 0|!warn"},
		{"down", nic("mlx5_core") + "\n" + rdma("mlx5_0", nicAt, "1: DOWN", hdr, "Ethernet", gid(0, noGID, "RoCE v2", "eth0")...), "!mlx5_0"},
		{"not captured", nic("mlx5_core") + "\n" + rdma("mlx5_0", nicAt, "4: ACTIVE", hdr, "Ethernet"), "unknown mlx5_0: the capture does not hold"},
		{"at different places", roce(1500, v2) + "\n" + second + "\n" + rdma("mlx5_1", farOther, "4: ACTIVE", hdr, "Ethernet", gid(3, ipv4GID, "RoCE v2", "eth1")...),
			"ok mlx5_0: GID index 1|ok mlx5_1: GID index 3|note : the GIDs that connect are not at the same index"},
	})
}

func TestMTU(t *testing.T) {
	v2 := gid(1, ipv4GID, "RoCE v2", "eth0")
	cases(t, "rdma-mtu", []struct{ name, system, wants string }{
		{"jumbo", roce(9000, v2), "ok mlx5_0: path MTU 4096\n"},
		{"just enough", roce(4192, v2), "ok mlx5_0: path MTU 4096\n"},
		{"one byte short", roce(4191, v2), "warn mlx5_0: the path MTU is 2048 of 4096: the interface's MTU is 4191, and 4096 takes 4192 at least $ ip link set eth0 mtu 9000\n"},
		{"plain", roce(1500, v2), "warn mlx5_0: the path MTU is 1024 of 4096"},
		{"plain, an accelerator's rail", roce(1500, v2) + "\n" + gpu("nvidia"), "warn mlx5_0: the path MTU is 1024 of 4096"},
		{"plain, of a NIC that is no rail", roce(1500, v2) + "\n" + gpu("nvidia") + "\n" + function(farOther, "15b3", "1023", "020700", "mlx5_core") + "\n" +
			rdma("mlx5_1", farOther, "4: ACTIVE", "800 Gb/sec (4X XDR)", ib), "note mlx5_0: the path MTU is 1024 of 4096|!warn"},
		{"InfiniBand's is not in files", nic("mlx5_core") + "\n" + rdma("mlx5_0", nicAt, "4: ACTIVE", hdr, ib), "unknown mlx5_0: the path MTU is not in files"},
	})
}

func TestRoCESettings(t *testing.T) {
	v2 := gid(1, ipv4GID, "RoCE v2", "eth0")
	const cm = "\nsys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode = "
	at := "\nsys/devices/pci0000:00/0000:00:01.0/" + nicAt + "/net/eth0/ecn/roce_np/enable/"
	cases(t, "roce-settings", []struct{ name, system, wants string }{
		{"not in files", roce(9000, v2), "unknown mlx5_0: whether the port and its switch agree on flow control (PFC) and on marking congestion (ECN) is not in files\n|!warn"},
		{"v2", roce(9000, v2) + cm + "RoCE v2", "unknown mlx5_0|!warn"},
		{"v1 by default", roce(9000, v2) + cm + "IB/RoCE v1", "warn mlx5_0: connection managers make connections of IB/RoCE v1 by default|$ echo 'RoCE v2' >/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode"},
		{"InfiniBand has none", nic("mlx5_core") + "\n" + rdma("mlx5_0", nicAt, "4: ACTIVE", hdr, ib), "!mlx5_0"},
	})
	f := runCheck(t, machine(t, roce(9000, v2), at+"3 = 1", at+"4 = 0", at+"5 = 1"), "roce-settings")
	want(t, strings.Join(f[0].Evidence, "\n"), "/sys/class/net/eth0/ecn/roce_np/enable: priorities 3,5")
}

func TestFirmware(t *testing.T) {
	one := nic("mlx5_core") + "\n" + rdma("mlx5_0", nicAt, "4: ACTIVE", hdr, ib)
	two := func(product, firmware string) string {
		return one + "\n" + function(farOther, "15b3", product, "020700", "mlx5_core") + "\n" +
			strings.Replace(rdma("mlx5_1", farOther, "4: ACTIVE", hdr, ib), "28.39.1002", firmware, 1)
	}
	cases(t, "rdma-firmware", []struct{ name, system, wants string }{
		{"one", one, "ok mlx5_0: firmware 28.39.1002\n"},
		{"equal", two("1021", "28.39.1002"), "ok mlx5_0|ok mlx5_1|!warn"},
		{"different", two("1021", "28.41.1000"), "warn mlx5_0, mlx5_1: equal devices have different firmware"},
		{"of different models", two("101b", "20.41.1000"), "ok mlx5_0|ok mlx5_1: firmware 20.41.1000|!warn"},
	})
}

func TestCounters(t *testing.T) {
	with := func(counters ...string) string {
		return nic("mlx5_core") + "\n" + rdma("mlx5_0", nicAt, "4: ACTIVE", hdr, ib, counters...)
	}
	cases(t, "rdma-counters", []struct{ name, system, wants string }{
		{"quiet", with("hw_counters/packet_seq_err = 0", "counters/symbol_error = 0", "counters/port_xmit_data = 123456"), "ok mlx5_0: no error counter has counted (2 counters)\n"},
		{"has counted", with("hw_counters/packet_seq_err = 12", "counters/symbol_error = 0"), "note mlx5_0: errors were counted since the driver was loaded: packet_seq_err 12\n"},
		{"traffic is no error", with("hw_counters/duplicate_request = 0", "hw_counters/out_of_buffer = 0", "hw_counters/req_cqe_flush_error = 7", "hw_counters/np_cnp_sent = 9", "counters/port_xmit_wait = 9"), "ok mlx5_0|!note"},
		{"no counter", with("counters/symbol_error = N/A (no PMA)"), "unknown mlx5_0: no error counter can be read\n"},
	})
	// What rises between two readings.
	s := machine(t, with("hw_counters/packet_seq_err = 15", "counters/symbol_error = 3", "hw_counters/out_of_buffer = 4"))
	d := s.rdmaDevices(t.Context())[0]
	f := s.judgeCounters(d, map[string]uint64{"ports/1/hw_counters/packet_seq_err": 12, "ports/1/counters/symbol_error": 3}, s.counters(d))
	want(t, told(f), "warn mlx5_0: error counters rise: packet_seq_err by 3 to 15\n|!symbol_error|!out_of_buffer")
	if f[0].Remedy != meansLoss || f[0].Counters["ports/1/hw_counters/packet_seq_err"] != 15 {
		t.Errorf("%+v", f)
	}
}
