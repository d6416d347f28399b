package dmabuf

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

var amdFamily = family{name: "amd", list: listAMD, open: openAMD}

// amdExporter is a GPU of AMD's, in the order of amdkfd's topology. It allocates
// by the kernel driver alone, and adopts what the ROCm runtime allocated.
type amdExporter struct {
	root   string
	number int
}

func listAMD(root string) []Exporter {
	nodes, _ := readKFD(root)
	all := []Exporter{&amdExporter{root: root}}
	for i := 1; i < len(nodes); i++ {
		all = append(all, &amdExporter{root, i})
	}
	return all
}

func openAMD(root, rest string) (Exporter, error) {
	n, err := ordinal("amd", rest)
	if err != nil {
		return nil, err
	}
	return &amdExporter{root, n}, nil
}

func (x *amdExporter) Name() string { return fmt.Sprintf("amd:%d", x.number) }

func (x *amdExporter) Describe() string {
	const what = "GPU memory by amdkfd and ROCm"
	n, err := x.node()
	if err != nil {
		return what
	}
	return fmt.Sprintf("%s, %s at %s", what, n.name, n.address())
}

const kfdMissing = "load the amdgpu driver, in a container pass /dev/kfd and /dev/dri"

// node finds the GPU.
func (x *amdExporter) node() (kfdNode, error) {
	nodes, err := readKFD(x.root)
	if err != nil && !errors.Is(err, syscall.ENOENT) {
		return kfdNode{}, &Error{Op: "read /" + kfdNodes, Exporter: x.Name(), Err: err}
	}
	if x.number >= len(nodes) {
		return kfdNode{}, &Error{Op: "read /" + kfdNodes, Exporter: x.Name(), Err: ErrNoDevice,
			Detail: fmt.Sprintf("amdkfd shows %d GPUs; %s", len(nodes), kfdMissing)}
	}
	return nodes[x.number], nil
}

func (x *amdExporter) kfdPath() string { return filepath.Join(x.root, "dev/kfd") }

func (x *amdExporter) renderPath(n kfdNode) string {
	return filepath.Join(x.root, fmt.Sprintf("dev/dri/renderD%d", n.renderMinor))
}

// Available looks at the topology, the driver's version and both nodes.
func (x *amdExporter) Available() error {
	n, err := x.node()
	if err != nil {
		return err
	}
	if n.publicBytes == 0 {
		return &Error{Op: "topology of " + n.address(), Exporter: x.Name(), Err: ErrUnsupported,
			Detail: "none of the GPU's memory is in reach of PCI: turn on resizable BAR (large BAR) and decoding above 4 GiB in the firmware"}
	}
	kfd, err := openNode(x.Name(), x.kfdPath(), kfdMissing)
	if err != nil {
		return err
	}
	defer unix.Close(kfd)
	if err := x.checkVersion(kfd); err != nil {
		return err
	}
	render, err := openNode(x.Name(), x.renderPath(n), kfdMissing)
	if err != nil {
		return err
	}
	unix.Close(render)
	return nil
}
