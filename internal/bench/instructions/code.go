//go:build linux && amd64

package instructions

import (
	"bufio"
	"bytes"
	"debug/elf"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// Write is what an instruction writes to, calls and pushes aside.
type Write uint8

const (
	NoWrite     Write = iota // registers alone
	StackWrite               // beside the stack pointer: a local variable
	MemoryWrite              // memory else
)

// Code gives the instructions of those functions of a program whose names are wanted, by
// their addresses, and what each writes to. The program is linked at fixed addresses and
// has its symbols. It takes objdump. What Go's functions do for their stack is left out.
func Code(file string, wanted func(function string) bool) (map[uint64]Write, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		return nil, fmt.Errorf("symbols of %s: %w", file, err)
	}
	var from, to uint64
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || !wanted(s.Name) {
			continue
		}
		if from == 0 || s.Value < from {
			from = s.Value
		}
		to = max(to, s.Value+s.Size)
	}
	if from == 0 {
		return nil, fmt.Errorf("%s has none of the functions", file)
	}
	text, err := exec.Command("objdump", "-d", "-w", "--no-show-raw-insn", fmt.Sprintf("--start-address=%#x", from), fmt.Sprintf("--stop-address=%#x", to), file).Output()
	if err != nil {
		return nil, fmt.Errorf("objdump %s: %w", file, err)
	}
	return listed(text, wanted), nil
}

// listed reads what objdump has written.
func listed(text []byte, wanted func(function string) bool) map[uint64]Write {
	code, in := make(map[uint64]Write), false
	var function []line
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		text := lines.Text()
		if at := strings.Index(text, " <"); at > 0 && strings.HasSuffix(text, ">:") {
			add(code, function)
			function, in = function[:0], wanted(text[at+2:len(text)-2])
			continue
		}
		address, does, ok := strings.Cut(strings.TrimSpace(text), ":\t")
		if pc, err := strconv.ParseUint(address, 16, 64); ok && err == nil && in {
			function = append(function, line{pc, does})
		}
	}
	add(code, function)
	return code
}

// line is an instruction as objdump has it.
type line struct {
	pc   uint64
	does string
}

// add adds a function's instructions but those with which a Go function looks whether its
// stack is large enough. The scheduler has them run once more where it wants the thread
// for another goroutine, after 10 ms: how often depends on the machine.
func add(code map[uint64]Write, function []line) {
	from, to := -1, uint64(math.MaxUint64) // what counts is between
	for i, l := range function[:min(4, len(function))] {
		if target, ok := strings.CutPrefix(l.does, "jbe "); ok {
			target, _, _ = strings.Cut(strings.TrimSpace(target), " ")
			if more, err := strconv.ParseUint(target, 16, 64); err == nil {
				from, to = i, more
			}
			break
		}
	}
	grows := slices.ContainsFunc(function, func(l line) bool { return l.pc >= to && strings.Contains(l.does, "<runtime.morestack") })
	for i, l := range function {
		if !grows || i > from && l.pc < to {
			code[l.pc] = writes(l.does)
		}
	}
}

// writes reads an instruction as objdump has it: "mov %rax,0x8(%rsp)".
func writes(does string) Write {
	does, _, _ = strings.Cut(does, "#")
	does, _, _ = strings.Cut(does, "<")
	words := strings.Fields(does)
	for len(words) > 1 && (words[0] == "lock" || strings.HasPrefix(words[0], "rep") || words[0] == "notrack") {
		words = words[1:]
	}
	if len(words) < 2 {
		return NoWrite
	}
	for _, reads := range []string{"cmp", "test", "lea", "nop", "j", "call", "push", "prefetch", "ucomi", "comi", "mul", "imul", "div", "idiv", "bt"} {
		if words[0] == reads || strings.HasPrefix(words[0], reads) && !strings.HasPrefix(words[0], "cmpxchg") {
			return NoWrite
		}
	}
	operands := strings.Join(words[1:], "")
	last := operands
	for i, depth := len(operands)-1, 0; i >= 0; i-- {
		switch operands[i] {
		case ')':
			depth++
		case '(':
			depth--
		case ',':
			if depth == 0 {
				last = operands[i+1:]
				i = 0
			}
		}
	}
	switch {
	case strings.Contains(last, "(%rsp"):
		return StackWrite
	case strings.Contains(last, "("), !strings.HasPrefix(last, "%") && !strings.HasPrefix(last, "$"):
		return MemoryWrite
	}
	return NoWrite
}

// Tally counts the instructions of a part and their writes.
type Tally struct {
	Instructions, StackWrites, MemoryWrites uint64
}

// CountCode is Count of the instructions that are in code: an instruction elsewhere, as of
// a library, is left out.
func CountCode(cmd *exec.Cmd, code map[uint64]Write) ([]Tally, error) {
	var (
		now   Tally
		sums  []Tally // after each instruction that is counted
		parts []Tally
	)
	counts, err := Count(cmd, func(pc uint64) bool {
		w, ok := code[pc]
		if !ok {
			return false
		}
		now.Instructions++
		switch w {
		case StackWrite:
			now.StackWrites++
		case MemoryWrite:
			now.MemoryWrites++
		}
		sums = append(sums, now)
		return true
	})
	if err != nil {
		return nil, err
	}
	var before Tally
	at := uint64(0)
	for _, n := range counts {
		at += n
		end := before
		if at > 0 {
			end = sums[at-1]
		}
		parts = append(parts, Tally{end.Instructions - before.Instructions, end.StackWrites - before.StackWrites, end.MemoryWrites - before.MemoryWrites})
		before = end
	}
	return parts, nil
}
