package kernel

import (
	"errors"
	"io/fs"
	"slices"
)

// absentRDMA gives how the names of the functions begin that the kernel cannot have now:
// those of ib_core or ib_uverbs, where it is neither loaded nor built in, which its class
// in sysfs would show. Without sysfs nobody knows: none.
func absentRDMA(root fs.FS, modules []string) []string {
	gone := func(module, class string) bool {
		_, err := fs.Stat(root, "sys/class/"+class)
		return errors.Is(err, fs.ErrNotExist) && !slices.Contains(modules, module)
	}
	if _, err := fs.Stat(root, "sys/class"); err != nil {
		return nil
	}
	switch {
	case gone("ib_core", "infiniband"):
		return []string{"ib_", "_ib_", "rdma_"}
	case gone("ib_uverbs", "infiniband_verbs"):
		return []string{"ib_uverbs_"}
	}
	return nil
}
