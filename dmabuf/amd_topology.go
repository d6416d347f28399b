package dmabuf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// kfdNode is a GPU in the topology that amdkfd shows in sysfs
// (drivers/gpu/drm/amd/amdkfd/kfd_topology.c).
type kfdNode struct {
	number       int    // of its folder
	gpuID        uint32 // how ioctls name it
	name         string
	renderMinor  int // of /dev/dri/renderD
	domain       uint32
	bdf          uint32 // bus, device and function, 16 bits
	publicBytes  uint64 // memory that the host, and so a NIC, reaches by the BAR
	privateBytes uint64 // memory that it does not
}

const kfdNodes = "sys/class/kfd/kfd/topology/nodes"

// address is the GPU's place on PCI.
func (n kfdNode) address() string {
	return fmt.Sprintf("%04x:%02x:%02x.%d", n.domain, n.bdf>>8&0xff, n.bdf>>3&0x1f, n.bdf&7)
}

// readKFD gives the GPUs in the order of their nodes. Those that a container's
// device cgroup hides cannot be read, and are left out.
func readKFD(root string) ([]kfdNode, error) {
	dir := filepath.Join(root, kfdNodes)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []kfdNode
	for _, e := range entries {
		number, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		node, err := readKFDNode(filepath.Join(dir, e.Name()), number)
		switch {
		case errors.Is(err, ErrPermission):
			continue
		case err != nil:
			return nil, err
		case node.gpuID != 0: // else it is a CPU
			all = append(all, node)
		}
	}
	slices.SortFunc(all, func(a, b kfdNode) int { return a.number - b.number })
	return all, nil
}

func readKFDNode(dir string, number int) (kfdNode, error) {
	n := kfdNode{number: number}
	text, err := os.ReadFile(filepath.Join(dir, "gpu_id"))
	if err != nil {
		return n, err
	}
	id, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return n, fmt.Errorf("%s: gpu_id %q", dir, text)
	}
	if n.gpuID = uint32(id); n.gpuID == 0 {
		return n, nil
	}
	if text, err = os.ReadFile(filepath.Join(dir, "properties")); err != nil {
		return n, err
	}
	p := parseKFD(string(text))
	n.renderMinor, n.domain, n.bdf = int(p["drm_render_minor"]), uint32(p["domain"]), uint32(p["location_id"])
	if text, err = os.ReadFile(filepath.Join(dir, "name")); err == nil {
		n.name = strings.TrimSpace(string(text))
	}
	banks, _ := filepath.Glob(filepath.Join(dir, "mem_banks", "*", "properties"))
	for _, path := range banks {
		if text, err = os.ReadFile(path); err != nil {
			return n, err
		}
		b := parseKFD(string(text))
		// HSA_MEM_HEAP_TYPE_FB_PUBLIC and FB_PRIVATE of kfd_topology.h.
		switch b["heap_type"] {
		case 1:
			n.publicBytes += b["size_in_bytes"]
		case 2:
			n.privateBytes += b["size_in_bytes"]
		}
	}
	return n, nil
}

// parseKFD reads lines of a name and a number. What is no such line is left out.
func parseKFD(text string) map[string]uint64 {
	properties := map[string]uint64{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64); err == nil {
			properties[name] = v
		}
	}
	return properties
}
