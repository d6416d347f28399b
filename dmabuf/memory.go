package dmabuf

// Exporter is one way to memory that a NIC can reach by a dma-buf.
type Exporter interface {
	// Name is how the command line and [Open] name it: "udmabuf",
	// "heap:system", "memfd", "vgem", "drm:card0", "vfio:0000:3b:00.0:2",
	// "accel:0", "cuda:0", "cuda:0:pool", "cuda:0:vmm", "amd:0", "habana:0",
	// "neuron:0", "ze:0".
	Name() string

	// Describe says in a few words what the memory is, for people.
	Describe() string

	// Available is nil where the exporter can be used, else why it cannot: an
	// *Error of the class ErrUnsupported, ErrNoDevice or ErrPermission, with
	// the remedy; EBUSY where another process has the device for itself. It
	// leaves nothing open but a vendor's library, which stays loaded.
	Available() error

	// Allocate gives size bytes of new memory, rounded up to what the exporter
	// allocates at least.
	Allocate(size uint64) (Memory, error)

	// Adopt takes memory that somebody else allocated and keeps owning, by the
	// address that its own library gave: a CUDA device pointer, a host address
	// of shared memory. Exporters without addresses give ErrUnsupported.
	Adopt(address, size uint64) (Memory, error)
}

// Memory is memory of an exporter. It is safe for use by several goroutines,
// but for Close.
type Memory interface {
	// Exporter is the name of the exporter that gave it.
	Exporter() string

	// Address is the memory's own: the accelerator's virtual address, or the
	// address in this process; 0 where there is none.
	Address() uint64

	// Size is in bytes.
	Size() uint64

	// Identity tells one allocation from every other, also from a later one at
	// the same address.
	Identity() (Identity, error)

	// Bytes is the memory as this process sees it, nil where it cannot. Where
	// the exporter maps, the accesses stand between BeginCPU and EndCPU of a
	// Buffer, or go by ReadAt and WriteAt, which do that by themselves.
	Bytes() []byte

	// ReadAt and WriteAt copy by the CPU, or by the accelerator's own engine
	// where the CPU does not reach the memory.
	ReadAt(p []byte, off int64) (int, error)
	WriteAt(p []byte, off int64) (int, error)

	// Export gives a dma-buf that holds length bytes from offset on. The
	// buffer may begin before them: register at Buffer.Offset.
	Export(offset, length uint64) (*Buffer, error)

	// Close frees what Allocate gave, and forgets what Adopt took. Exported
	// buffers stay valid until they are closed.
	Close() error
}

// Identity names one allocation, in this process and for as long as it runs: the
// inode of a dma-buf or memfd, CUDA's buffer ID. Two allocations never share one,
// even if they had the same address one after the other. It tells that an adopted
// one was freed only where the library can be asked (CUDA): a dma-buf made when
// the memory was adopted (ROCm, Level Zero) keeps its own.
type Identity struct {
	Kind string // "dmabuf", "memfd", "cuda", "cuda pieces", "habana", "neuron"
	ID   uint64
}

// CPUAccess is what the CPU is about to do to a buffer (DMA_BUF_SYNC_READ, WRITE).
type CPUAccess uint64

const (
	CPURead  CPUAccess = 1
	CPUWrite CPUAccess = 2
)

// Closing says when the descriptor of a buffer may be closed.
type Closing int

const (
	// CloseAnyTime: a registration holds the buffer by itself.
	CloseAnyTime Closing = iota
	// CloseAfterDeregister: it must stay open until every registration of it
	// is gone (vfio: its last descriptor closes the device; Habana: the export
	// keeps the compute device open).
	CloseAfterDeregister
	// CloseNever: the driver closes it when the registration goes (Neuron).
	// Buffer.Close then only forgets it, unless no registration was tried. One that
	// failed before the NIC was attached leaves the descriptor open: nothing tells.
	CloseNever
)
