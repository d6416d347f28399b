package inventory

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// tree makes a system root of lines "path = content" and "path -> target".
func tree(text string) fstest.MapFS {
	root := fstest.MapFS{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if path, target, ok := strings.Cut(line, " -> "); ok {
			root[path] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
		} else if path, content, ok := strings.Cut(line, " = "); ok {
			root[path] = &fstest.MapFile{Data: []byte(content + "\n"), Mode: 0o444}
		} else if line != "" {
			panic("neither file nor link: " + line)
		}
	}
	return root
}

// adapter is a two-port adapter behind a root of a wide domain, and what a
// kernel says of its second port, which is down.
const adapter = `
sys/class/infiniband/mlx5_0 -> ../../devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/device -> ../../../10001:81:00.0
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/node_type = 1: CA
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/node_desc = node7 HCA-1
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/node_guid = 0002:c903:00aa:bb10
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/fw_ver = 28.43.1014
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/board_id = TEST0000000001
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/ports/1/state = 4: ACTIVE
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/ports/1/phys_state = 5: LinkUp
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/ports/1/link_layer = InfiniBand
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/ports/1/rate = 56 Gb/sec (4X FDR)
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/ports/1/lid = 0x7
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/ports/1/cap_mask = 0x00010002
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/ports/1/gids/0 = fe80:0000:0000:0000:0002:c903:00aa:bb10
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/ports/1/gids/1 = 0000:0000:0000:0000:0000:0000:0000:0000
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/ports/1/gids/10 = not a GID
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/ports/1/gid_attrs/types/0 = IB/RoCE v1
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/ports/1/pkeys/0 = 0xffff
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/ports/1/pkeys/1 = 0x0000
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/ports/2/state = 1: DOWN
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/ports/2/phys_state = 3: Disabled
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/ports/2/link_layer = Ethernet
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/ports/2/rate = 
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/ports/2/gids/0 = 0000:0000:0000:0000:0000:ffff:c000:0201
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/ports/2/gids/1 = fe80:0000:0000:0000:0000:0000:0000:0001
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/ports/2/gid_attrs/types/0 = RoCE v2
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/ports/2/gid_attrs/types/1 = IB/RoCE v1
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/infiniband/mlx5_0/ports/2/gid_attrs/ndevs/0 = eth9
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/numa_node = -1
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/vendor = 0x15b3
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/class = 0x020700
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/current_link_speed = 16.0 GT/s PCIe
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/current_link_width = 8
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/max_link_width = 255
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/driver -> ../../../../bus/pci/drivers/mlx5_core
sys/bus/pci/drivers/mlx5_core/module -> ../../../../module/mlx5_core
sys/module/mlx5_core/version = 1
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/net/eth9/ifindex = 7
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/net/eth9/mtu = 9000
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/net/eth9/speed = -1
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/net/eth9/dev_port = 1
sys/devices/pci10001:80/10001:80:01.0/10001:81:00.0/net/ib0/dev_port = 0
sys/class/net/eth9 -> ../../devices/pci10001:80/10001:80:01.0/10001:81:00.0/net/eth9
sys/class/net/ib0 -> ../../devices/pci10001:80/10001:80:01.0/10001:81:00.0/net/ib0
sys/class/infiniband_verbs/abi_version = 6
sys/class/infiniband_verbs/uverbs4/ibdev = mlx5_0
sys/class/infiniband_verbs/uverbs4/abi_version = 1
`

func collected(t *testing.T, o Options) Inventory {
	t.Helper()
	inv, err := Collect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

func TestSysfsOfAnAdapter(t *testing.T) {
	d := collected(t, Options{Root: tree(adapter)}).Devices[0]
	want := Device{
		Name: "mlx5_0", NodeType: new("ca"), NodeDesc: new("node7 HCA-1"), NodeGUID: new("0002:c903:00aa:bb10"),
		Firmware: new("28.43.1014"), BoardID: new("TEST0000000001"), PortCount: new(2),
		Driver: new("mlx5_core"), Module: new("mlx5_core"), CharDevice: new("/dev/infiniband/uverbs4"), UverbsABI: new(1),
		Software: new(false),
		PCI: &PCI{
			Address: "10001:81:00.0", Driver: new("mlx5_core"), VendorID: hex(0x15b3, 4), Class: hex(0x020700, 6),
			LinkSpeed: new("16.0 GT/s PCIe"), LinkWidth: new(8),
		},
		Netdevs: []Netdev{
			{Name: "eth9", Index: new(7), Port: new(2), MTU: new(9000), PCIAddress: new("10001:81:00.0")},
			{Name: "ib0", Port: new(1), PCIAddress: new("10001:81:00.0")},
		},
		Ports: []Port{
			{
				Number: 1, State: new("ACTIVE"), PhysicalState: new("LINK_UP"), LinkLayer: new("InfiniBand"),
				Rate: new(56000), Width: new(4), LaneRate: new(14000), SpeedName: new("FDR"), LID: hex(7, 4),
				Capabilities: flags(0x10002, 8, "SM|CM_SUP"), PKeyTable: new(2), PKeys: []PKey{{0, Hex{0xffff, 4}}},
				GIDTable: new(3), BestGID: new(0),
				GIDs: []GID{{Index: 0, GID: "fe80:0000:0000:0000:0002:c903:00aa:bb10", Address: "fe80::2:c903:aa:bb10", Type: new("IB")}},
			},
			{
				Number: 2, State: new("DOWN"), PhysicalState: new("DISABLED"), LinkLayer: new("Ethernet"), Netdev: new("eth9"),
				PKeyTable: new(0), PKeys: []PKey{}, GIDTable: new(2), BestGID: new(0),
				GIDs: []GID{
					{Index: 0, GID: "0000:0000:0000:0000:0000:ffff:c000:0201", Address: "192.0.2.1", Type: new("RoCE v2"), Netdev: new("eth9")},
					{Index: 1, GID: "fe80:0000:0000:0000:0000:0000:0000:0001", Address: "fe80::1", Type: new("RoCE v1")},
				},
			},
		},
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestDeviceAndPortAreChosen(t *testing.T) {
	root := tree(adapter + `
sys/class/infiniband/rxe0/node_type = 1: CA
sys/class/infiniband/rxe0/ports/1/state = 4: ACTIVE
`)
	if inv := collected(t, Options{Root: root, Device: "rxe0"}); len(inv.Devices) != 1 || inv.Devices[0].Name != "rxe0" {
		t.Errorf("asked for rxe0, got %+v", inv.Devices)
	}
	inv := collected(t, Options{Root: root, Port: 2})
	if len(inv.Devices) != 1 || inv.Devices[0].Name != "mlx5_0" || len(inv.Devices[0].Ports) != 1 || inv.Devices[0].Ports[0].Number != 2 {
		t.Errorf("asked for port 2, got %+v", inv.Devices)
	}
	_, err := Collect(t.Context(), Options{Root: root, Device: "efa_0"})
	if !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "there is mlx5_0, rxe0") {
		t.Errorf("a wrong name gave %v", err)
	}
	_, err = Collect(t.Context(), Options{Root: root, Port: 3})
	if !errors.Is(err, ErrNoPort) || !strings.Contains(err.Error(), "mlx5_0 has ports 1 to 2, rxe0 has port 1") {
		t.Errorf("a wrong port gave %v", err)
	}
	_, err = Collect(t.Context(), Options{Root: root, Device: "rxe0", Port: 2})
	if !errors.Is(err, ErrNoPort) || strings.Contains(err.Error(), "mlx5_0") {
		t.Errorf("a wrong port of one device gave %v", err)
	}
}

func TestWithoutDevices(t *testing.T) {
	for name, root := range map[string]fs.FS{
		"empty":        fstest.MapFS{},
		"no class":     tree("sys/class/net/lo/mtu = 65536"),
		"dangling":     tree("sys/class/infiniband/mlx5_0 -> ../../devices/pci0000:00/0000:00:01.0/infiniband/mlx5_0"),
		"not a device": tree("sys/class/infiniband/README = nothing"),
	} {
		inv, err := Collect(t.Context(), Options{Root: root})
		if !errors.Is(err, ErrNoDevice) || len(inv.Devices) != 0 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %+v", name, err, inv.Devices)
		}
	}
}

// A captured tree lacks link targets; what is there is shown all the same.
func TestDanglingLinksLoseOnlyWhatTheyPointAt(t *testing.T) {
	d := collected(t, Options{Root: tree(`
sys/class/infiniband/rdmap16s27/device/uevent = PCI_SLOT_NAME=0000:10:1b.0
sys/class/infiniband/rdmap16s27/device/numa_node = 1
sys/class/infiniband/rdmap16s27/device/driver -> ../../../../bus/pci/drivers/efa
sys/class/infiniband/rdmap16s27/ports/1/state = 4: ACTIVE
sys/class/infiniband/rdmap16s27/ports/1/gids/0 -> ../../../nowhere
sys/class/infiniband/rdmap16s27/ports/lost+found/state = 4: ACTIVE
`)}).Devices[0]
	if d.PCI == nil || d.PCI.Address != "0000:10:1b.0" || or(d.NUMANode, "") != "1" || or(d.Driver, "") != "efa" || d.Module != nil {
		t.Errorf("function %+v, NUMA node %v, driver %v", d.PCI, or(d.NUMANode, "?"), or(d.Driver, "?"))
	}
	if len(d.Ports) != 1 || or(d.Ports[0].State, "") != "ACTIVE" || len(d.Ports[0].GIDs) != 0 {
		t.Errorf("ports %+v", d.Ports)
	}
}

// faulty fails to open the files it names.
type faulty struct {
	fstest.MapFS
	errs map[string]error
}

func (f faulty) Open(name string) (fs.File, error) {
	for suffix, err := range f.errs {
		if strings.HasSuffix(name, suffix) {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
	return f.MapFS.Open(name)
}

func (f faulty) ReadFile(name string) ([]byte, error) {
	file, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	file.Close()
	return f.MapFS.ReadFile(name)
}

func (f faulty) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := f.errs[name]; err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return f.MapFS.ReadDir(name)
}

func TestUnreadableClassIsNoMissingDevice(t *testing.T) {
	_, err := Collect(t.Context(), Options{Root: faulty{tree(adapter), map[string]error{classDir: syscall.EACCES}}})
	if !errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrNoDevice) {
		t.Errorf("error %v", err)
	}
}

func TestUnreadableFilesAreReportedAndOthersShown(t *testing.T) {
	text := adapter + `
sys/class/infiniband/rxe0/node_type = 1: CA
sys/class/infiniband/rxe0/ports/1/state = 4: ACTIVE
`
	root := faulty{tree(text), map[string]error{"mlx5_0/node_guid": syscall.EACCES, "ports/1/rate": syscall.EINVAL}}
	inv, err := Collect(t.Context(), Options{Root: root})
	if !errors.Is(err, fs.ErrPermission) || len(Split(err)) != 1 {
		t.Errorf("error %v", err)
	}
	if len(inv.Devices) != 2 {
		t.Fatalf("%d devices", len(inv.Devices))
	}
	d := inv.Devices[0]
	if d.NodeGUID != nil || or(d.NodeDesc, "") != "node7 HCA-1" || d.Ports[0].Rate != nil || or(d.Ports[0].State, "") != "ACTIVE" {
		t.Errorf("node GUID %v, description %v, port %+v", d.NodeGUID, d.NodeDesc, d.Ports[0])
	}
	if len(inv.Problems) != 1 || or(inv.Problems[0].Device, "") != "mlx5_0" || inv.Problems[0].Class != "permission" || inv.Problems[0].Part != "sysfs" {
		t.Errorf("problems %+v", inv.Problems)
	}
}

func TestSoftwareDevicesHaveNoFunction(t *testing.T) {
	d := collected(t, Options{Root: tree(`
sys/class/infiniband/rxe0 -> ../../devices/virtual/infiniband/rxe0
sys/devices/virtual/infiniband/rxe0/node_type = 1: CA
sys/devices/virtual/infiniband/rxe0/ports/1/state = 9: WHATEVER
sys/devices/virtual/infiniband/rxe0/ports/1/gids/0 = fe80:0000:0000:0000:0000:0000:0000:0001
sys/devices/virtual/infiniband/rxe0/ports/1/gid_attrs/ndevs/0 = eth0
sys/class/net/eth0 -> ../../devices/pci0000:00/0000:00:03.0/virtio2/net/eth0
sys/devices/pci0000:00/0000:00:03.0/virtio2/net/eth0/mtu = 1500
`)}).Devices[0]
	if d.PCI != nil || or(d.Software, "") != "true" || d.absent() != "-" {
		t.Errorf("function %+v, software %v", d.PCI, or(d.Software, "?"))
	}
	if got := or(d.Ports[0].State, "?"); got != "UNKNOWN(9)" {
		t.Errorf("state %s", got)
	}
	if len(d.Netdevs) != 1 || or(d.Netdevs[0].PCIAddress, "") != "0000:00:03.0" || or(d.Netdevs[0].Port, "") != "1" {
		t.Errorf("network devices %+v", d.Netdevs)
	}
}
