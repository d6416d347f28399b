package ebpfprobes

import (
	"testing"

	"github.com/cilium/ebpf/btf"
)

// TestHasMember looks as deep as struct bpf_link_info goes.
func TestHasMember(t *testing.T) {
	u64 := &btf.Int{Size: 8}
	probe := &btf.Struct{Name: "kprobe", Members: []btf.Member{{Name: "addr", Type: u64}, {Name: "missed", Type: u64}}}
	info := func(of btf.Type) btf.Type {
		return &btf.Struct{Name: "bpf_link_info", Members: []btf.Member{
			{Name: "type", Type: u64},
			{Type: &btf.Union{Members: []btf.Member{{Name: "perf_event", Type: &btf.Typedef{Name: "t", Type: of}}}}},
		}}
	}
	if !hasMember(info(probe), "missed") {
		t.Error("not found")
	}
	probe.Members = probe.Members[:1]
	if hasMember(info(probe), "missed") || hasMember(u64, "missed") {
		t.Error("found where it is not")
	}
}
