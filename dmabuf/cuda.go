package dmabuf

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/peerdirect/peerdirect/internal/cuda"
)

var cudaFamily = family{name: "cuda", list: listCUDA, open: openCUDA}

// cudaKind is how memory is allocated. What is adopted may be of any kind.
type cudaKind string

const (
	cudaPlain cudaKind = ""     // cuMemAlloc
	cudaPool  cudaKind = "pool" // stream-ordered, cuMemAllocFromPoolAsync
	cudaVMM   cudaKind = "vmm"  // physical pieces mapped to a range of addresses, cuMemMap
)

// owner is what memory of the kind comes from, for messages.
func (k cudaKind) owner() string {
	switch k {
	case cudaPool:
		return "memory of a stream-ordered pool"
	case cudaVMM:
		return "memory of cuMemMap"
	}
	return "memory of cuMemAlloc"
}

var cudaKinds = []cudaKind{cudaPlain, cudaPool, cudaVMM}

// cudaExporter is a GPU of NVIDIA's, as the driver library counts them.
type cudaExporter struct {
	ordinal int
	kind    cudaKind
	// noPCIe: the driver knows no other mapping than the one over PCIe, so
	// that there is nothing to ask it for.
	noPCIe atomic.Bool
}

// listCUDA asks the driver how many GPUs there are. Only the machine that this
// process runs on has a driver to ask.
func listCUDA(root string) []Exporter {
	n := 0
	if root == "/" && cuda.Init() == nil {
		n, _ = cuda.Devices()
	}
	if n == 0 {
		return []Exporter{&cudaExporter{}}
	}
	var all []Exporter
	for i := range n {
		for _, kind := range cudaKinds {
			all = append(all, &cudaExporter{ordinal: i, kind: kind})
		}
	}
	return all
}

// openCUDA takes "0", "0:pool" and "0:vmm".
func openCUDA(root, rest string) (Exporter, error) {
	number, kind, _ := strings.Cut(rest, ":")
	if number == "" {
		number = "0"
	}
	ordinal, err := strconv.Atoi(number)
	if err != nil || ordinal < 0 || !slices.Contains(cudaKinds, cudaKind(kind)) {
		return nil, &Error{Op: "open", Exporter: "cuda:" + rest, Err: ErrUnsupported,
			Detail: "the names are cuda:N, cuda:N:pool and cuda:N:vmm"}
	}
	return &cudaExporter{ordinal: ordinal, kind: cudaKind(kind)}, nil
}

// CUDA is the exporter of a GPU, by the driver's ordinal, whose Allocate uses
// cuMemAlloc.
func CUDA(ordinal int) Exporter { return &cudaExporter{ordinal: ordinal} }

func (x *cudaExporter) Name() string {
	name := fmt.Sprintf("cuda:%d", x.ordinal)
	if x.kind != cudaPlain {
		name += ":" + string(x.kind)
	}
	return name
}

func (x *cudaExporter) Describe() string {
	how := map[cudaKind]string{
		cudaPlain: "GPU memory by cuMemAlloc",
		cudaPool:  "GPU memory of a stream-ordered pool (the driver exports it, but does not call it capable of RDMA)",
		cudaVMM:   "GPU memory mapped in pieces by cuMemMap",
	}[x.kind]
	d, err := x.device()
	if err != nil {
		return how
	}
	name, err := d.Name()
	if err != nil {
		return how
	}
	if pci, err := d.PCIAddress(); err == nil {
		name += " at " + strings.ToLower(pci)
	}
	return how + ", " + name
}

// device starts the driver where it has not been.
func (x *cudaExporter) device() (cuda.Device, error) {
	if err := cuda.Start(); err != nil {
		return 0, x.noDriver(err)
	}
	n, err := cuda.Devices()
	if err != nil {
		return 0, x.failed(err, "")
	}
	if x.ordinal >= n {
		return 0, &Error{Op: "cuDeviceGet", Exporter: x.Name(), Err: ErrNoDevice,
			Detail: fmt.Sprintf("the driver shows %d GPUs, numbered from 0%s", n, visibleDevices())}
	}
	d, err := cuda.GetDevice(x.ordinal)
	if err != nil {
		return 0, x.failed(err, "")
	}
	return d, nil
}

func visibleDevices() string {
	if v, ok := os.LookupEnv("CUDA_VISIBLE_DEVICES"); ok {
		return fmt.Sprintf("; CUDA_VISIBLE_DEVICES is %q", v)
	}
	return ""
}

// noDriver says why the driver did not start.
func (x *cudaExporter) noDriver(err error) error {
	var start *cuda.StartError
	if !errors.As(err, &start) {
		return err
	}
	detail := strings.Trim(start.Cause+"; "+start.Remedy, "; ")
	if errors.Is(err, ErrPermission) {
		detail = start.Cause + ": " + nodeOwner(cuda.Control)
	}
	return &Error{Op: start.Op, Exporter: x.Name(), Err: start.Err, Detail: detail}
}

// failed makes an Error of one of the library's. Without a detail of the
// caller's the status has its own.
func (x *cudaExporter) failed(err error, detail string) error {
	var e *cuda.Error
	if !errors.As(err, &e) {
		return err
	}
	if detail == "" {
		detail = e.Result.Remedy()
	}
	return &Error{Op: e.Op, Exporter: x.Name(), Err: e.Result, Detail: detail}
}

// Available starts the driver, which stays started.
func (x *cudaExporter) Available() error {
	d, err := x.device()
	if err != nil {
		return err
	}
	if !cuda.HasExport() {
		return &Error{Op: "cuMemGetHandleForAddressRange", Exporter: x.Name(), Err: ErrUnsupported,
			Detail: fmt.Sprintf("not in this libcuda, which serves CUDA %s; install a driver from 515 on (CUDA 11.7)", driverVersion())}
	}
	if err := x.needs(d, cuda.DMABufSupported, "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED",
		"dma-bufs take NVIDIA's open kernel modules, a GPU from Turing on and a kernel from 5.12 on"); err != nil {
		return err
	}
	switch x.kind {
	case cudaPool:
		return x.needs(d, cuda.PoolsSupported, "CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED", "this GPU or its driver has no stream-ordered pools")
	case cudaVMM:
		if err := x.needs(d, cuda.VMMSupported, "CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", "this GPU or its driver maps no physical memory by itself"); err != nil {
			return err
		}
		return x.needs(d, cuda.RDMAWithVMM, "CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED", "memory mapped by cuMemMap is not for RDMA on this GPU; use cuMemAlloc")
	}
	return nil
}

// needs asks for an attribute of the device that must not be 0.
func (x *cudaExporter) needs(d cuda.Device, a cuda.DeviceAttribute, name, otherwise string) error {
	v, err := d.Attribute(a)
	switch {
	case errors.Is(err, cuda.InvalidValue):
		otherwise += "; the driver is too old to know the attribute"
	case err != nil:
		return x.failed(err, "")
	case v != 0:
		return nil
	}
	return &Error{Op: name + " of " + x.Name(), Err: ErrUnsupported,
		Detail: fmt.Sprintf("%s (driver: CUDA %s, %s)", otherwise, driverVersion(), kernelModule())}
}

func driverVersion() string {
	v, err := cuda.DriverVersion()
	if err != nil {
		return "unknown"
	}
	return v
}

// kernelModule is the first line of what the kernel module says of itself: its
// version, and whether it is the open one.
func kernelModule() string {
	text, err := os.ReadFile("/proc/driver/nvidia/version")
	if err != nil {
		return "kernel module unknown"
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.Join(strings.Fields(strings.TrimPrefix(line, "NVRM version:")), " ")
}
