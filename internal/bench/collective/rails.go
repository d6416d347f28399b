package collective

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rails is what each NIC carried, and where it and the memory are.
func (n *node) rails() []Rail {
	stats := n.e.Stats()
	all := make([]Rail, len(stats))
	near := n.region.Rails()
	embedded := n.e.Rails()[0].Embedded
	for i, s := range stats {
		all[i] = Rail{Device: s.Device, Near: slices.Contains(near, i), Bytes: s.Bytes, Losses: s.Losses}
		if !embedded {
			all[i].PCI, all[i].NUMA = placeOf("/", s.Device)
			all[i].Memory = n.memory.node()
		}
	}
	return all
}

// placeOf reads an RDMA device's PCI address and NUMA node below a system's root.
func placeOf(root, device string) (address string, node *int) {
	dir := filepath.Join(root, "sys/class/infiniband", device, "device")
	to, err := filepath.EvalSymlinks(dir)
	if err != nil || !strings.Contains(to, "/pci") {
		return "", nil // a software device
	}
	b, err := os.ReadFile(filepath.Join(dir, "numa_node"))
	if k, bad := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && bad == nil && k >= 0 {
		node = &k
	}
	return filepath.Base(to), node
}

// node is the NUMA node of the first page of memory of the process; nil where it is
// not known.
func (m *memory) node() *int {
	if m.mem != nil {
		return nil
	}
	page := uintptr(unsafe.Pointer(&m.buf.Bytes()[0]))
	status := int32(-1)
	// move_pages without nodes moves nothing, and tells where pages are.
	_, _, errno := unix.Syscall6(unix.SYS_MOVE_PAGES, 0, 1, uintptr(unsafe.Pointer(&page)), 0, uintptr(unsafe.Pointer(&status)), 0)
	if errno != 0 || status < 0 {
		return nil
	}
	at := int(status)
	return &at
}
