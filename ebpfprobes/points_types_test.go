package ebpfprobes

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
)

var rdmaType = regexp.MustCompile(`"(ib_|rdma_|rxe_)`)

// TestRDMAReaders holds the list against what the programs are fitted by.
func TestRDMAReaders(t *testing.T) {
	reads := make(map[string]bool)
	for _, load := range []func() (*ebpf.CollectionSpec, error){
		objects.LoadRegistrations, objects.LoadConnections, objects.LoadErrors, objects.LoadLifecycle, objects.LoadCompletions,
	} {
		spec, err := load()
		if err != nil {
			t.Fatal(err)
		}
		for name, p := range spec.Programs {
			for _, suffix := range []string{"_fentry", "_fexit", "_kprobe", "_kretprobe"} {
				name = strings.TrimSuffix(name, suffix)
			}
			for i := range p.Instructions {
				if r := btf.CORERelocationMetadata(&p.Instructions[i]); r != nil && rdmaType.MatchString(r.String()) {
					reads[name] = true
				}
			}
		}
	}
	for name := range reads {
		if !slices.Contains(rdmaReaders, name) {
			t.Errorf("%s reads RDMA's structs and is not in the list", name)
		}
	}
	for _, name := range rdmaReaders {
		if !reads[name] {
			t.Errorf("%s is in the list and reads none of RDMA's structs", name)
		}
	}
}

func TestUnreadable(t *testing.T) {
	none := errors.New("none")
	for _, c := range []struct {
		point       point
		types, rdma error
		want        string
	}{
		{point{entry: "phase", exit: "phase_end"}, nil, nil, ""},
		{point{entry: "phase", exit: "phase_end"}, nil, none, ""},
		{point{entry: "phase", exit: "phase_end"}, none, nil, "CONFIG_DEBUG_INFO_BTF)"},
		{point{entry: "handler", exit: "handler_end"}, nil, none, "ib_core"},
		{point{entry: "mlx5_cmd", tracepoint: "mlx5_core"}, nil, none, "ib_core"},
		{point{entry: "mlx5_cmd", tracepoint: "mlx5_core"}, none, none, "CONFIG_DEBUG_INFO_BTF)"},
	} {
		err := c.point.unreadable(c.types, c.rdma)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.point.entry, err, c.want)
		}
	}
}
