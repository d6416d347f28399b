//go:build linux && amd64

package perf

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/peerdirect/peerdirect/internal/bench/instructions"
)

// TestInstructionsOfMarks counts what marks add to a message while no tracer is attached:
// the loops' own instructions, exactly, with marks and compiled without. They write to no
// memory; what a compiler saves on the stack for them is a register, now and then.
func TestInstructionsOfMarks(t *testing.T) {
	const messages = 100
	for _, tool := range []string{"gcc", "objdump"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs ", tool)
		}
	}
	build := func(name string, options ...string) (string, map[uint64]instructions.Write) {
		program := filepath.Join(t.TempDir(), name)
		args := append([]string{"-O2", "-D_GNU_SOURCE", "-no-pie", "-o", program, "testdata/marked.c", "loop.c", "bw.c", "lat.c", "marks.c"}, options...)
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		code, err := instructions.Code(program, func(string) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		return program, code
	}
	with, withCode := build("with")
	without, withoutCode := build("without", "-DPF_NO_MARKS")
	for _, c := range []struct {
		loop string
		each int // messages to a completion
	}{{"bw", 1}, {"bw", 100}, {"lat", 1}} {
		count := func(program string, code map[uint64]instructions.Write) instructions.Tally {
			parts, err := instructions.CountCode(exec.Command(program, c.loop, strconv.Itoa(messages), strconv.Itoa(c.each)), code)
			if err != nil || len(parts) != 1 {
				t.Fatal(parts, err)
			}
			return parts[0]
		}
		a, b := count(with, withCode), count(without, withoutCode)
		added := float64(int64(a.Instructions-b.Instructions)) / messages
		t.Logf("%s, a completion for %d messages: %.2f instructions a message with marks, %.2f without (%+.2f); %d writes to memory and %d, to the stack %d and %d", c.loop, c.each,
			float64(a.Instructions)/messages, float64(b.Instructions)/messages, added, a.MemoryWrites, b.MemoryWrites, a.StackWrites, b.StackWrites)
		if b.Instructions < 20*messages {
			t.Errorf("the loop took %d instructions", b.Instructions)
		}
		if added > 12 {
			t.Errorf("%s: marks that nobody looks at cost %v instructions a message", c.loop, added)
		}
		if a.MemoryWrites > b.MemoryWrites {
			t.Errorf("%s: they write to memory", c.loop)
		}
		// gcc 14 saves a register each time up to 16 completions are taken, gcc 12 has one free.
		if a.StackWrites > b.StackWrites+(messages+15)/16 {
			t.Errorf("%s: they save %d registers", c.loop, a.StackWrites-b.StackWrites)
		}
	}
}
