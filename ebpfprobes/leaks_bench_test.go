package ebpfprobes

import (
	"os"
	"testing"
	"unsafe"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
)

// BenchmarkBirth is what the tracer does for an object that ends soon.
func BenchmarkBirth(b *testing.B) {
	var t stackTable
	t.reset()
	defer t.close()
	birth := objects.LifecycleBirth{Tgid: uint32(os.Getpid())}
	birth.Snapshot.Bytes = uint32(len(birth.Snapshot.Stack))
	b.SetBytes(int64(unsafe.Sizeof(birth)))
	b.ReportAllocs()
	for b.Loop() {
		birth.Key++
		t.add(&birth, func(birthKey) bool { return false })
	}
}
