//go:build lab

package ebpfprobes_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// runsOfAll sums how often the machine's programs ran, as far as the kernel counted that:
// only while statistics are on.
func runsOfAll(t *testing.T) (n uint64) {
	t.Helper()
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if err != nil {
			return n
		}
		id = next
		p, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue
		}
		if s, err := p.Stats(); err == nil {
			n += s.RunCount
		}
		p.Close()
	}
}

// counting tells whether the kernel counts the runs of programs.
func counting(t *testing.T, program string) bool {
	t.Helper()
	before := runsOfAll(t)
	registrar(t, program, "host", 4096, 10, nil)
	return runsOfAll(t) != before
}

// measureForever is this program as a child: it measures until it is killed.
const measureForever = "PEERDIRECT_MEASURE_FOREVER"

func TestMeasureForever(t *testing.T) {
	if os.Getenv(measureForever) == "" {
		t.Skip("is run by TestStatisticsAreOff")
	}
	s, err := ebpfprobes.Registrations(ebpfprobes.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	time.AfterFunc(time.Second, func() { fmt.Println("measuring") })
	s.Measure(context.Background(), time.Hour)
}

// TestStatisticsAreOff: the kernel's statistics are on while a session measures, and off
// when it has, when it detaches or closes, and when it is killed.
func TestStatisticsAreOff(t *testing.T) {
	program := build(t)
	watched, err := ebpfprobes.Registrations(ebpfprobes.Filter{}) // whose programs run
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Close()
	if counting(t, program) {
		t.Skip("needs kernel.bpf_stats_enabled=0")
	}
	for name, end := range map[string]func(s *ebpfprobes.RegistrationSession, cancel func()) error{
		"cancelled": func(_ *ebpfprobes.RegistrationSession, cancel func()) error { cancel(); return nil },
		"detached":  func(s *ebpfprobes.RegistrationSession, _ func()) error { return s.Detach() },
		"closed":    func(s *ebpfprobes.RegistrationSession, _ func()) error { return s.Close() },
	} {
		s, err := ebpfprobes.Registrations(ebpfprobes.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		measured := make(chan error)
		go func() {
			_, err := s.Measure(ctx, time.Hour)
			measured <- err
		}()
		time.Sleep(time.Second)
		if !counting(t, program) {
			t.Errorf("%s: not counted while it measures", name)
		}
		if err := end(s, cancel); err != nil {
			t.Error(err)
		}
		if err := <-measured; err != nil {
			t.Error(err)
		}
		if counting(t, program) {
			t.Errorf("%s: counted still", name)
		}
		if name == "detached" {
			if o, err := s.Measure(ctx, time.Hour); err != nil || o.Over != 0 {
				t.Errorf("measured while detached: %+v %v", o, err)
			}
		}
		cancel()
		s.Close()
	}

	child := exec.Command(os.Args[0], "-test.run", "^TestMeasureForever$")
	child.Env = append(os.Environ(), measureForever+"=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "measuring\n" {
		t.Errorf("the child said %q %v", line, err)
	}
	if !counting(t, program) {
		t.Error("not counted while the child measures")
	}
	child.Process.Kill()
	child.Wait()
	time.Sleep(time.Second) // the kernel closes what it had open
	if counting(t, program) {
		t.Error("killed: counted still")
	}
}
