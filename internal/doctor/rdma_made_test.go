package doctor

import (
	"fmt"
	"strings"
	"testing"
)

// rdma gives the lines of an RDMA device on the function at an address, with one
// port. more are files below the port's folder, "NAME = TEXT".
func rdma(name, address, state, rate, layer string, more ...string) string {
	at := "sys/devices/pci0000:00/0000:00:01.0/" + address + "/infiniband/" + name
	lines := []string{
		"sys/class/infiniband/" + name + " -> ../../devices/pci0000:00/0000:00:01.0/" + address + "/infiniband/" + name,
		at + "/device -> ../../../" + address,
		at + "/node_type = 1: CA", at + "/node_guid = 0c42:a103:0099:" + address[5:7] + address[8:10], at + "/fw_ver = 28.39.1002",
		at + "/ports/1/state = " + state, at + "/ports/1/phys_state = 5: LinkUp",
		at + "/ports/1/rate = " + rate, at + "/ports/1/link_layer = " + layer,
	}
	for _, m := range more {
		lines = append(lines, at+"/ports/1/"+m)
	}
	return strings.Join(lines, "\n")
}

// gid gives the lines of a GID for rdma.
func gid(index int, address, kind, netdev string) []string {
	return []string{
		fmt.Sprintf("gids/%d = %s", index, address), fmt.Sprintf("gid_attrs/types/%d = %s", index, kind),
		fmt.Sprintf("gid_attrs/ndevs/%d = %s", index, netdev),
	}
}

const (
	ipv4GID  = "0000:0000:0000:0000:0000:ffff:0a00:0001"
	localGID = "fe80:0000:0000:0000:0e42:a1ff:fe99:8877"
	noGID    = "0000:0000:0000:0000:0000:0000:0000:0000"
)

// roce is an active RoCE port with its interface; tests change what matters.
func roce(mtu int, gids ...[]string) string {
	var more []string
	for _, g := range gids {
		more = append(more, g...)
	}
	return nic("mlx5_core") + "\n" + rdma("mlx5_0", nicAt, "4: ACTIVE", "100 Gb/sec (4X EDR)", "Ethernet", more...) + "\n" +
		netdev("eth0", "0x1003", "up", "1", mtu)
}

// netdev gives the lines of an interface of the NIC.
func netdev(name, flags, state, carrier string, mtu int) string {
	at := "sys/devices/pci0000:00/0000:00:01.0/" + nicAt + "/net/" + name
	return strings.Join([]string{
		"sys/class/net/" + name + " -> ../../devices/pci0000:00/0000:00:01.0/" + nicAt + "/net/" + name,
		at + "/flags = " + flags, at + "/operstate = " + state, at + "/carrier = " + carrier,
		at + "/type = 1", at + "/dev_port = 0", fmt.Sprintf("%s/mtu = %d", at, mtu),
	}, "\n")
}

// cases runs one check over small systems; each wants words as want takes them.
func cases(t *testing.T, check string, all []struct{ name, system, wants string }) {
	t.Helper()
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) { want(t, told(runCheck(t, machine(t, c.system), check)), c.wants) })
	}
}
