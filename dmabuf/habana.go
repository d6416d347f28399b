package dmabuf

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

var habanaFamily = family{name: "habana", list: listHabana, open: openHabana}

// habanaExporter is a Gaudi accelerator.
type habanaExporter struct {
	root   string
	number int
}

// habanaNode is the device as the kernel shows it.
type habanaNode struct {
	path string // its node, under the root
	name string // its node without the root, as descriptors of it show it
	pci  string
	// accel: it is of the accel subsystem (from 6.2 on), whose interface
	// differs from that of the driver's own class before.
	accel bool
	// physical: its memory has no page table, and exports go by physical
	// address (the first generation).
	physical bool
}

// PCI identities: drivers/accel/habanalabs/common/habanalabs_drv.c.
const habanaVendor = "0x1da3"

var habanaFirstGeneration = map[string]bool{"0x1000": true, "0x1001": true, "0x1010": true, "0x1011": true}

// habanaNodes gives the devices of either class, in the order of their numbers.
func habanaNodes(root string) []habanaNode {
	var all []habanaNode
	for _, class := range []struct{ folder, prefix, dev string }{
		{"sys/class/accel", "accel", "accel/"},
		{"sys/class/habanalabs", "hl", ""},
	} {
		for i := range 256 {
			name := fmt.Sprintf("%s%d", class.prefix, i)
			device := filepath.Join(root, class.folder, name, "device")
			vendor, err := os.ReadFile(filepath.Join(device, "vendor"))
			if err != nil || strings.TrimSpace(string(vendor)) != habanaVendor {
				continue
			}
			id, _ := os.ReadFile(filepath.Join(device, "device"))
			link, _ := filepath.EvalSymlinks(device)
			all = append(all, habanaNode{
				path:     filepath.Join(root, "dev", class.dev+name),
				name:     "/dev/" + class.dev + name,
				pci:      filepath.Base(link),
				accel:    class.prefix == "accel",
				physical: habanaFirstGeneration[strings.TrimSpace(string(id))],
			})
		}
	}
	return all
}

func listHabana(root string) []Exporter {
	all := []Exporter{&habanaExporter{root: root}}
	for i := 1; i < len(habanaNodes(root)); i++ {
		all = append(all, &habanaExporter{root, i})
	}
	return all
}

func openHabana(root, rest string) (Exporter, error) {
	n, err := ordinal("habana", rest)
	if err != nil {
		return nil, err
	}
	return &habanaExporter{root, n}, nil
}

func (x *habanaExporter) Name() string { return fmt.Sprintf("habana:%d", x.number) }

func (x *habanaExporter) Describe() string {
	const what = "memory of a Gaudi accelerator"
	n, err := x.node()
	if err != nil {
		return what
	}
	return fmt.Sprintf("%s, %s at %s", what, n.name, n.pci)
}

func (x *habanaExporter) node() (habanaNode, error) {
	nodes := habanaNodes(x.root)
	if x.number >= len(nodes) {
		return habanaNode{}, &Error{Op: "look for Gaudi devices", Exporter: x.Name(), Err: ErrNoDevice,
			Detail: fmt.Sprintf("there are %d of PCI vendor %s in /sys/class/accel and /sys/class/habanalabs; load the habanalabs driver", len(nodes), habanaVendor)}
	}
	return nodes[x.number], nil
}

// Available does not open the device: one process has it at a time, and closing
// it may reset it.
func (x *habanaExporter) Available() error {
	n, err := x.node()
	if err != nil {
		return err
	}
	return x.openError(n, unix.Access(n.path, unix.R_OK|unix.W_OK))
}

func (x *habanaExporter) openError(n habanaNode, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Op: "open " + n.name, Exporter: x.Name(), Err: err, Detail: fdDetail(err)}
	switch err {
	case syscall.ENOENT:
		e.Err, e.Detail = ErrNoDevice, "the kernel has the device, but not this container or udev: pass the node in"
	case syscall.EACCES, syscall.EPERM:
		e.Detail = nodeOwner(n.path)
	case syscall.EBUSY:
		e.Detail = "another process has the accelerator: one can at a time (hl-smi shows it)"
	}
	return e
}

// descriptor gives one of the device: a duplicate of what this process has open
// already, as memory belongs to the opened device, else a new one.
func (x *habanaExporter) descriptor(n habanaNode) (int, error) {
	if fd, err := ownDescriptor(n.name); err == nil {
		return fd, nil
	}
	fd, err := unix.Open(n.path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	return fd, x.openError(n, err)
}

// ownDescriptor duplicates a descriptor of this process that is open on a node.
func ownDescriptor(path string) (int, error) {
	const dir = "/proc/self/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return -1, err
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err != nil || to != path {
			continue
		}
		var fd int
		if _, err := fmt.Sscan(e.Name(), &fd); err != nil {
			continue
		}
		return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	}
	return -1, os.ErrNotExist
}
