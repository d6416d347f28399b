package pci

import (
	"reflect"
	"testing"
)

func TestReadNames(t *testing.T) {
	const (
		nic   = "pci0000:00/0000:00:02.0"
		accel = "pci0000:00/0000:00:03.0"
		hub   = "pci0000:00/0000:00:04.0"
		gaudi = "pci0000:00/0000:00:05.0"
		odd   = "pci0000:00/0000:00:06.0"
		ib    = sysDevices + "/" + nic + "/infiniband/mlx5_2"
	)
	m := newMachine().
		device(nic, "020700", connect).
		named("infiniband", "mlx5_10", nic).named("infiniband", "mlx5_2", nic).
		file(ib+"/node_guid", "0c42:a103:0065:f9fa\n").
		file(ib+"/ports/2/state", "1: DOWN\n").
		file(ib+"/ports/1/state", "4: ACTIVE\n").
		file(ib+"/ports/1/rate", "400 Gb/sec (4X NDR)\n").
		file(ib+"/ports/1/link_layer", "InfiniBand\n").
		named("net", "ib1", nic).named("net", "ib0", nic).
		device(accel, gpu, "1002:74a1").
		named("drm", "card0", accel).named("drm", "renderD128", accel).named("drm", "card0-DP-1", accel).
		file(sysDevices+"/"+accel+"/mem_info_vram_total", "206141652992\n").
		device(hub, "0c0330", "8086:a36d").
		link("sys/class/net/usb0", "../../devices/"+hub+"/usb1/1-1/1-1:1.0/net/usb0").
		link("sys/class/net/lo", "../../devices/virtual/net/lo").
		device(gaudi, "ff0000", "1234:5678").
		named("accel", "accel0", gaudi).
		// A copy without links, whose device is known.
		device(odd, ether, "14e4:1750").
		file("sys/class/infiniband/bnxt_re0/node_guid", "0:0:0:1").
		link("sys/class/infiniband/bnxt_re0/device", "../../../0000:00:06.0").
		file("sys/bus/pci/slots/3-1/address", "0000:00:02\n").
		file("sys/bus/pci/slots/control/add_slot", "")
	topo, err := Read(m)
	if err != nil {
		t.Fatal(err)
	}
	at := func(device uint8) *Device { return topo.Device(Address{0, 0, device, 0}) }
	want := []RDMA{
		{Name: "mlx5_2", NodeGUID: "0c42:a103:0065:f9fa", Ports: []RDMAPort{
			{1, "ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand"}, {2, "DOWN", "", ""}}},
		{Name: "mlx5_10"},
	}
	if d := at(2); !reflect.DeepEqual(d.RDMA, want) || !reflect.DeepEqual(d.Net, []string{"ib0", "ib1"}) || d.Slot != "3-1" {
		t.Errorf("%+v", d)
	}
	if d := at(3); !reflect.DeepEqual(d.Dev, []string{"dri/card0", "dri/renderD128"}) || d.Memory != 206141652992 {
		t.Errorf("%+v", d)
	}
	if d := at(4); d.Net != nil || d.Kind != Other {
		t.Errorf("the controller of a USB interface: %+v", d)
	}
	if d := at(5); d.Kind != Accelerator || !reflect.DeepEqual(d.Dev, []string{"accel/accel0"}) {
		t.Errorf("an accelerator by its class folder: %+v", d)
	}
	if d := at(6); d.Kind != RDMANIC || topo.Name(d) != "bnxt_re0" {
		t.Errorf("%+v", d)
	}
}

func TestReadNVIDIA(t *testing.T) {
	m := newMachine().device("pci0000:00/0000:00:02.0", gpu, h100).
		file("proc/driver/nvidia/gpus/0000:00:02.0/information", "Model: \t\t NVIDIA H100\nDevice Minor: \t 3\n").
		file("proc/driver/nvidia/gpus/0000:00:09.0/information", "Device Minor: \t 1\n").
		file("proc/driver/nvidia/gpus/other", "")
	topo, err := Read(m)
	if err != nil || !reflect.DeepEqual(topo.Devices[0].Dev, []string{"nvidia3"}) {
		t.Errorf("%+v, %v", topo.Devices[0], err)
	}
}

func TestReadWithoutClasses(t *testing.T) {
	const nic = "pci0000:00/0000:00:02.0"
	m := newMachine().device(nic, "020700", connect).
		file(sysDevices+"/"+nic+"/infiniband/mlx5_0/node_guid", "1:2:3:4").
		file(sysDevices+"/"+nic+"/net/ib0/mtu", "4092")
	topo, err := Read(m)
	if err != nil || topo.Name(topo.Devices[0]) != "mlx5_0" || topo.Devices[0].RDMA[0].NodeGUID != "1:2:3:4" {
		t.Errorf("%+v, %v", topo.Devices[0], err)
	}
}
