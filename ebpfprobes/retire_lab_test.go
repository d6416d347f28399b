//go:build lab

package ebpfprobes_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// swarmed runs short processes that fill more rows than a table of the kernel has, and
// reads what was counted all the while: it never becomes less, and nothing is lost.
func swarmed(t *testing.T, what string, processes int, losses func() (ebpfprobes.Losses, error), read func() (count uint64, ended bool, rows int)) {
	t.Helper()
	if !strings.HasPrefix(device(t), "rxe") {
		t.Skip("needs rxe, of whose driver the program knows what it refuses")
	}
	p := start(t, compile(t, "swarm"), device(t), strconv.Itoa(processes), what)
	p.tell(t)
	said := make(chan string, 1)
	go func() {
		line, err := p.out.ReadString('\n')
		if err != nil {
			line = err.Error()
		}
		said <- strings.TrimSpace(line)
	}()
	var last uint64
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for line := ""; line == ""; {
		select {
		case line = <-said:
		case <-tick.C:
		}
		n, ended, rows := read()
		if n < last {
			t.Fatalf("%d were counted, %d before", n, last)
		}
		last = n
		if line == "" {
			continue
		}
		t.Logf("the program says %s, %d were counted, in %d rows", line, n, rows)
		if line != fmt.Sprint(n) || !ended {
			t.Errorf("%d were counted, of ended processes %v; the program says %q", n, ended, line)
		}
	}
	if l, err := losses(); err != nil || l.Any() {
		t.Errorf("losses: %+v %v", l, err)
	}
}

func TestErrorsOfManyProcesses(t *testing.T) {
	device(t)
	s, err := ebpfprobes.Errors(ebpfprobes.ErrorFilter{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	swarmed(t, "errors", 90, s.Losses, func() (n uint64, ended bool, rows int) {
		list, err := s.Rows()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			if r.Class == ebpfprobes.CallError && r.Command == "swarm" && strings.HasPrefix(r.What, "command ") {
				n += r.Count
				rows++
				ended = ended || r.Ended && r.PID == 0 && !r.First.After(r.Last)
			}
		}
		return n, ended, rows
	})
}

func TestConnectionsOfManyProcesses(t *testing.T) {
	device(t)
	s, err := ebpfprobes.Connections(ebpfprobes.ConnectionFilter{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	swarmed(t, "connections", 150, s.Losses, func() (n uint64, ended bool, rows int) {
		list, err := s.Transitions()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			if r.Command == "swarm" {
				n += r.Count
				rows++
				ended = ended || r.Ended && r.PID == 0
			}
		}
		return n, ended, rows
	})
	if left, err := s.QPs(); err != nil || len(left) > 0 {
		t.Errorf("alive: %+v %v", left, err)
	}
}

func TestCompletionsOfManyProcesses(t *testing.T) {
	device(t)
	s, err := ebpfprobes.Completions(ebpfprobes.CompletionFilter{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	swarmed(t, "completions", 110, s.Losses, func() (n uint64, ended bool, rows int) {
		list, err := s.Rows()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			if r.Command == "swarm" {
				n += r.Times.Count
				rows++
				ended = ended || r.PID == 0
			}
		}
		return n, ended, rows
	})
}
