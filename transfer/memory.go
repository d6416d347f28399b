package transfer

import "github.com/peerdirect/peerdirect/dmabuf"

// HostMemory names memory of the process, which is registered by its address and
// of which no dma-buf is made.
const HostMemory = "host"

// MemoryNamed gives the exporter of a name, see [dmabuf.Open], and nil for
// [HostMemory] or no name.
func MemoryNamed(name string) (dmabuf.Exporter, error) {
	if name == "" || name == HostMemory {
		return nil, nil
	}
	return dmabuf.Open(name)
}

// MemoryName is the name of an exporter's memory, or of the process's own where
// there is no exporter.
func MemoryName(e dmabuf.Exporter) string {
	if e == nil {
		return HostMemory
	}
	return e.Name()
}
