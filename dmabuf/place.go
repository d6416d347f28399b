package dmabuf

import (
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// placed is an exporter that knows which PCI device's memory it gives.
type placed interface {
	pciAddress() (string, error)
}

// PCIAddress tells the PCI address, as "0000:3b:00.0", of the device whose memory an
// exporter gives; the exporter is named as by [Exporter].Name and [Memory].Exporter.
// It is "" for memory of the host. It fails where the device is not there, or its
// library does not tell.
func PCIAddress(exporter string) (string, error) {
	x, err := Open(exporter)
	if err != nil {
		return "", err
	}
	p, ok := x.(placed)
	if !ok {
		return "", nil
	}
	address, err := p.pciAddress()
	return strings.ToLower(address), err
}

func (x *cudaExporter) pciAddress() (string, error) {
	d, err := x.device()
	if err != nil {
		return "", err
	}
	return d.PCIAddress()
}

func (x *zeExporter) pciAddress() (string, error) {
	d, err := x.device()
	if err != nil {
		return "", err
	}
	return d.PCIAddress()
}

func (x *amdExporter) pciAddress() (string, error) {
	nodes, err := readKFD(x.root)
	switch {
	case err != nil:
		return "", &Error{Op: "place", Exporter: x.Name(), Err: err}
	case x.number >= len(nodes):
		return "", &Error{Op: "place", Exporter: x.Name(), Err: ErrNoDevice, Detail: fmt.Sprintf("amdkfd shows %d GPUs", len(nodes))}
	}
	return nodes[x.number].address(), nil
}

func (x *habanaExporter) pciAddress() (string, error) {
	n, err := x.node()
	return n.pci, err
}

func (b *bar) pciAddress() (string, error) { return b.address, nil }

func (a *accel) pciAddress() (string, error) {
	fd, info, err := a.open()
	if err != nil {
		return "", err
	}
	unix.Close(fd)
	return unix.ByteSliceToString(info.pci[:]), nil
}

func (c *card) pciAddress() (string, error) {
	device, err := filepath.EvalSymlinks(filepath.Join(c.root, "sys/class/drm", c.card, "device"))
	if err != nil {
		return "", &Error{Op: "place", Exporter: c.Name(), Err: err}
	}
	if address := filepath.Base(device); isPCIAddress(address) {
		return address, nil
	}
	return "", nil // vgem's is no device of the machine
}
