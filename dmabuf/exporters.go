package dmabuf

import (
	"fmt"
	"strings"
)

// family is all exporters of one driver. Each is in a file of its own.
type family struct {
	name string // the part of the exporter's name before the first colon
	// list gives those that could be here, available or not: at least one, so
	// that its Available can say what is missing. root is the system root.
	list func(root string) []Exporter
	// open makes the exporter of the rest of the name: "" or what follows the
	// colon.
	open func(root, rest string) (Exporter, error)
}

var families = []family{
	udmabufFamily, heapFamily, memfdFamily, drmFamily, vgemFamily, vfioFamily, accelFamily,
	cudaFamily, amdFamily, habanaFamily, neuronFamily, zeFamily,
}

// Exporters lists every exporter that this package knows, whether it can be
// used here or not: ask Available.
func Exporters() []Exporter {
	var all []Exporter
	for _, f := range families {
		all = append(all, f.list("/")...)
	}
	return all
}

// Open gives the exporter of a name, as [Exporter.Name] has it; a name without
// its last part means the first device.
func Open(name string) (Exporter, error) {
	kind, rest, _ := strings.Cut(name, ":")
	for _, f := range families {
		if f.name == kind {
			return f.open("/", rest)
		}
	}
	var known []string
	for _, f := range families {
		known = append(known, f.name)
	}
	return nil, &Error{Op: "open", Exporter: name, Err: ErrUnsupported,
		Detail: fmt.Sprintf("no such exporter; there are %s", strings.Join(known, ", "))}
}
