package lab

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/efa/vfiouser"
)

// MaxAccelerators is how many accelerators a guest has at most.
const MaxAccelerators = 16

// Accelerators says which accelerators the guests have: PCI functions whose BAR
// is memory of their own, which is not the guest's. They compute nothing. Their
// driver is peerdirect_accel (recipe/accel), which exports that memory as
// peer-to-peer dma-bufs.
type Accelerators struct {
	Count  int // of each guest, up to MaxAccelerators
	Memory int // of each, MiB, a power of two; default DefaultAcceleratorMemory
}

// DefaultAcceleratorMemory is an accelerator's memory in MiB.
const DefaultAcceleratorMemory = 64

// maxAcceleratorMemory is the largest memory that one scatter entry of a dma-buf
// describes, as a power of two, MiB.
const maxAcceleratorMemory = 2048

func (a Accelerators) check() error {
	switch {
	case a.Count < 0 || a.Count > MaxAccelerators:
		return fmt.Errorf("%d accelerators: a machine has 0 to %d", a.Count, MaxAccelerators)
	case a.Memory < 0 || a.Memory > maxAcceleratorMemory || a.Memory&(a.Memory-1) != 0:
		return fmt.Errorf("%d MiB of accelerator memory: it is a BAR, so a power of two up to %d", a.Memory, maxAcceleratorMemory)
	}
	return nil
}

// acceleratorMemory is the memory of all accelerators of a run: a file each, made
// here and given to QEMU. A nil *acceleratorMemory has none.
type acceleratorMemory struct {
	size  int // MiB
	nodes [][]*os.File
	files map[fileID]bool
}

// fileID names a file while it is open.
type fileID struct{ dev, ino uint64 }

func (a Accelerators) allocate(nodes int) (*acceleratorMemory, error) {
	if a.Count == 0 {
		return nil, nil
	}
	m := &acceleratorMemory{size: a.Memory, nodes: make([][]*os.File, nodes), files: map[fileID]bool{}}
	for node := range m.nodes {
		for range a.Count {
			if err := m.add(node); err != nil {
				m.close()
				return nil, err
			}
		}
	}
	return m, nil
}

func (m *acceleratorMemory) add(node int) error {
	fd, err := unix.MemfdCreate("accelerator", unix.MFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), "accelerator")
	m.nodes[node] = append(m.nodes[node], file)
	if err := file.Truncate(int64(m.size) << 20); err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	st := info.Sys().(*syscall.Stat_t)
	m.files[fileID{st.Dev, st.Ino}] = true
	return nil
}

// holds tells whether a file is an accelerator's memory.
func (m *acceleratorMemory) holds(dev, ino uint64) bool {
	return m != nil && m.files[fileID{dev, ino}]
}

// node gives the files of a node's accelerators, in order.
func (m *acceleratorMemory) node(node int) []*os.File {
	if m == nil {
		return nil
	}
	return m.nodes[node]
}

func (m *acceleratorMemory) close() {
	if m == nil {
		return
	}
	for _, files := range m.nodes {
		closeAll(files)
	}
}

// acceleratorArguments gives QEMU's arguments for a function in each slot. fd is
// QEMU's descriptor of the first one's memory; each has size MiB.
func acceleratorArguments(slots []pcieSlot, fd, size int) (args []string) {
	for i, slot := range slots {
		id := "accelerator" + strconv.Itoa(i)
		// This process's file rather than one of QEMU's own: see guestMemory.
		args = append(args, "-object", fmt.Sprintf("memory-backend-file,id=%s,size=%dM,mem-path=/proc/self/fd/%d,share=on", id, size, fd+i))
		device := "ivshmem-plain,memdev=" + id
		if slot.bus != "" {
			device += ",bus=" + slot.bus
		}
		args = append(args, "-device", device)
	}
	return args
}

// guestMemory is a guest's memory as an EFA device sees it. A byte is an
// accelerator's if the file that QEMU shares it by is the one that this process
// made for an accelerator; everything else counts as the host's. So no address,
// and nothing that a guest can do, makes host memory pass for an accelerator's.
type guestMemory struct{ *vfiouser.Memory }

func (m guestMemory) Place(addr uint64) device.Place {
	if m.Marked(addr) {
		return device.PlaceAccelerator
	}
	return device.PlaceHost
}
