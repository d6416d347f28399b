package ebpfprobes

import (
	"fmt"
	"slices"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/kernel"
)

// rdmaReaders are the programs that read structs of ib_core and its drivers: they cannot
// be loaded where no module tells its types.
var rdmaReaders = []string{
	"call_end", "handler_end", "driver", "driver_end", "deregister", "ending", "ending_end",
	"tracked", "raised", "reading", "created", "destroyed", "modify", "modified",
	"event_raised", "completion_posted", "command_end", "mlx5_cmd",
}

// rdmaTypes tells why the types of RDMA's modules cannot be had; nil if they can, or if
// there is no such module: the kernel's own types have all, or nothing is there to attach to.
func rdmaTypes(k *kernel.Kernel) error {
	if k.NoTypes() != nil || !slices.Contains(k.Modules(), "ib_core") || len(k.ModuleTypes()) > 0 {
		return nil
	}
	_, err := k.Types.Module("ib_core")
	return err
}

// unreadable tells why a point's programs cannot be loaded: all are fitted to the running
// kernel by its types, and readers of RDMA's structs by its modules' types.
func (p *point) unreadable(noTypes, noRDMA error) error {
	switch {
	case noTypes != nil:
		return fmt.Errorf("programs cannot be fitted to this kernel without its types (CONFIG_DEBUG_INFO_BTF): %w", noTypes)
	case noRDMA != nil && (slices.Contains(rdmaReaders, p.entry) || slices.Contains(rdmaReaders, p.exit)):
		return fmt.Errorf("module ib_core was built without types (CONFIG_DEBUG_INFO_BTF_MODULES): %w", noRDMA)
	}
	return nil
}
