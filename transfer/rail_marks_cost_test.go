//go:build linux && amd64

package transfer_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/internal/bench/instructions"
	"github.com/peerdirect/peerdirect/internal/marker"
	"github.com/peerdirect/peerdirect/transfer"
)

const countedRounds = 6

// TestInstructionsOfMarks counts what marks add to an embedded rail's Post and Poll while
// no tracer is attached: the rail's own instructions, exactly, of these tests built with
// marks and with the tag nomarks. They write to no memory but local variables.
func TestInstructionsOfMarks(t *testing.T) {
	if batch := os.Getenv("PEERDIRECT_COUNT_MARKS"); batch != "" {
		countRail(t, len(batch))
		return
	}
	if testing.Short() || !marker.Built {
		t.Skip("builds these tests twice, with marks and without")
	}
	for _, tool := range []string{"go", "objdump"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs ", tool)
		}
	}
	type program struct {
		file string
		code map[uint64]instructions.Write
	}
	build := func(name string, options ...string) (p program) {
		p.file = filepath.Join(t.TempDir(), name)
		if out, err := exec.Command("go", append(append([]string{"test", "-c", "-o", p.file}, options...), ".")...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var err error
		p.code, err = instructions.Code(p.file, func(f string) bool {
			return strings.Contains(f, "/transfer.(*EFA).") || strings.Contains(f, "internal/marker.")
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	with, without := build("with"), build("without", "-tags", "nomarks")
	for _, batch := range []int{1, 16} {
		// The least of the rounds: in the others a poll came before the device was done.
		count := func(p program) (post, poll instructions.Tally) {
			cmd := exec.Command(p.file, "-test.run", "^TestInstructionsOfMarks$")
			cmd.Env = append(os.Environ(), "PEERDIRECT_COUNT_MARKS="+strings.Repeat("x", batch), "GODEBUG=asyncpreemptoff=1", "GOGC=off")
			parts, err := instructions.CountCode(cmd, p.code)
			if err != nil || len(parts) != 2*countedRounds {
				t.Fatal(len(parts), err)
			}
			least := func(of int) instructions.Tally {
				var all []instructions.Tally
				for i := of; i < len(parts); i += 2 {
					all = append(all, parts[i])
				}
				return slices.MinFunc(all, func(a, b instructions.Tally) int { return int(a.Instructions) - int(b.Instructions) })
			}
			return least(0), least(1)
		}
		var a, b [2]instructions.Tally
		a[0], a[1] = count(with)
		b[0], b[1] = count(without)
		for i, what := range []string{"post", "poll"} {
			added := float64(int64(a[i].Instructions-b[i].Instructions)) / float64(batch)
			t.Logf("%s of %d: %d instructions of the rail with marks, %d without (%+.2f an operation); %d writes to memory and %d, %d to local variables and %d", what, batch,
				a[i].Instructions, b[i].Instructions, added, a[i].MemoryWrites, b[i].MemoryWrites, a[i].StackWrites, b[i].StackWrites)
			if b[i].Instructions < uint64(10*batch) {
				t.Errorf("%s of %d took %d instructions", what, batch, b[i].Instructions)
			}
			if added > 30 {
				t.Errorf("marks that nobody looks at cost %v instructions an operation", added)
			}
			if a[i].MemoryWrites > b[i].MemoryWrites {
				t.Errorf("%s of %d: %d writes to memory with marks, %d without", what, batch, a[i].MemoryWrites, b[i].MemoryWrites)
			}
		}
	}
}

// countRail is what the counter runs: batches of writes between two rails, posted, and
// polled when they are done.
func countRail(t *testing.T, batch int) {
	e, err := transfer.NewEmbedded(transfer.EmbeddedOptions{Nodes: 2, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	p := openPair(t, e.Node(0), e.Node(1))
	done := func() (n uint64) {
		for _, d := range e.Fabric().Devices() {
			n += d.Stats().RDMAWrite.WriteWRs
		}
		return n
	}
	region, err := p.Rail[0].Register(make([]byte, 1<<16))
	if err != nil {
		t.Fatal(err)
	}
	target, err := p.Rail[1].Register(make([]byte, 1<<16))
	if err != nil {
		t.Fatal(err)
	}
	ops, got := make([]transfer.Op, batch), make([]transfer.Completion, batch)
	for i := range ops {
		at := uint64(i * 64)
		ops[i] = transfer.Op{Kind: transfer.OpWrite, Peer: p.Peer[0], Local: region.At(at, 64), Remote: target.Descriptor().At(at)}
	}
	runtime.LockOSThread()
	for round := range countedRounds {
		runtime.Breakpoint()
		n, err := p.Rail[0].Post(ops)
		runtime.Breakpoint()
		if err != nil || n != batch {
			t.Fatal(n, err)
		}
		for done() < uint64((round+1)*batch) {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(20 * time.Millisecond) // until the device has told
		runtime.Breakpoint()
		for n = 0; n < batch && err == nil; {
			var more int
			more, err = p.Rail[0].Poll(got)
			n += more
		}
		runtime.Breakpoint()
		if err != nil {
			t.Fatal(err)
		}
	}
}
