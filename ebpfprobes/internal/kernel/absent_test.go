package kernel

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
)

// Where the kernel's symbols may not be read, a function of a module that is not there is
// not there; of every other one nobody knows.
func TestAbsentRDMA(t *testing.T) {
	dir := &fstest.MapFile{Mode: fs.ModeDir | 0o755}
	for what, c := range map[string]struct {
		root    fstest.MapFS
		modules string
		absent  string // functions of "ib_uverbs_write rdma_restrack_add _ib_modify_qp dma_buf_pin"
	}{
		"nothing":          {fstest.MapFS{"sys/class/net": dir}, "", "ib_uverbs_write rdma_restrack_add _ib_modify_qp"},
		"no sysfs":         {fstest.MapFS{"sys": dir}, "", ""},
		"ib_core":          {fstest.MapFS{"sys/class/infiniband": dir}, "ib_core", "ib_uverbs_write"},
		"built in":         {fstest.MapFS{"sys/class/infiniband": dir, "sys/class/infiniband_verbs": dir}, "", ""},
		"about to be":      {fstest.MapFS{"sys/class/net": dir}, "ib_core ib_uverbs", ""},
		"ib_uverbs, about": {fstest.MapFS{"sys/class/infiniband": dir}, "ib_core ib_uverbs", ""},
	} {
		modules := strings.Fields(c.modules)
		k := &Kernel{modules: modules, absent: absentRDMA(c.root, modules), noTypes: errors.New("no types")}
		k.symbols.once.Do(func() { k.symbols.err = syscall.EACCES })
		for _, name := range strings.Fields("ib_uverbs_write rdma_restrack_add _ib_modify_qp dma_buf_pin") {
			want := error(syscall.EACCES)
			if strings.Contains(c.absent, name) {
				want = fs.ErrNotExist
			}
			if found, err := k.Find(name, "", true); len(found) > 0 || !errors.Is(err, want) {
				t.Errorf("%s: %s: %v, %v, want %v", what, name, found, err, want)
			}
		}
	}
}
