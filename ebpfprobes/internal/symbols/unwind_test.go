package symbols

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Programs that stop inside of some functions, so that their stack can be read.
const (
	inC = `#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#define KEEP __attribute__((noinline, noclone))
KEEP long innermost(volatile long *p) { p[0]++; printf("ready\n"); fflush(stdout); raise(SIGSTOP); return p[0]; }
KEEP long middle(long a, long b, long c, long d)
{
	volatile long room[64] = { a, b, c, d };
	long sum = 0;
	for (long i = 0; i < a; i++)
		sum += innermost(room) * b + c * d;
	return sum + room[3];
}
KEEP long outermost(long n) { return middle(n, n + 1, n + 2, n + 3) + 1; }
int main(int argc, char **argv) { return outermost(argc) == 12345; }
`
	inGo = `package main

import (
	"fmt"
	"runtime"
	"syscall"
)

// The first thread is the traced one; a signal to the process could be another's.
func init() { runtime.LockOSThread() }

//go:noinline
func innermost(n int) int {
	fmt.Println("ready")
	syscall.Tgkill(syscall.Getpid(), syscall.Getpid(), syscall.SIGSTOP)
	return n
}

//go:noinline
func middle(n int) int { var room [40]int; room[n] = innermost(n); return room[n] + 1 }

//go:noinline
func outermost(n int) int { return middle(n) + 1 }

func main() { outermost(1) }
`
)

func TestUnwind(t *testing.T) {
	for _, c := range []struct {
		name, file, source string
		build              []string
		want               []string
	}{
		{"C without frame pointers", "p.c", inC, []string{"gcc", "-O2", "-fomit-frame-pointer"}, []string{"innermost", "middle", "outermost", "main"}},
		{"C with frame pointers alone", "p.c", inC, []string{"gcc", "-O2", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"}, []string{"innermost", "middle", "outermost", "main"}},
		{"Go", "p.go", inGo, []string{"go", "build"}, []string{"main.innermost", "main.middle", "main.outermost", "main.main", "runtime.main"}},
		{"Go stripped", "p.go", inGo, []string{"go", "build", "-ldflags=-s -w"}, []string{"main.innermost", "main.middle", "main.outermost", "main.main", "runtime.main"}},
		{"Go position-independent", "p.go", inGo, []string{"go", "build", "-buildmode=pie"}, []string{"main.innermost", "main.middle", "main.outermost", "main.main", "runtime.main"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := exec.LookPath(c.build[0]); err != nil {
				t.Skip("needs ", c.build[0])
			}
			dir := t.TempDir()
			source, program := filepath.Join(dir, c.file), filepath.Join(dir, "p")
			if err := os.WriteFile(source, []byte(c.source), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(c.build[0], append(c.build[1:], "-o", program, source)...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			set := NewSet()
			defer set.Close()
			p, snapshot := stopped(t, set, program)
			addresses, whole := p.Unwind(snapshot)
			var names []string
			for _, f := range p.Name(addresses) {
				names = append(names, f.Function)
			}
			got := strings.Join(names, " ")
			if !whole {
				t.Errorf("the stack was not unwound to its end: %s", got)
			}
			if want := strings.Join(c.want, " "); !strings.Contains(" "+got+" ", " "+want+" ") {
				t.Errorf("got  %s\nwant %s somewhere in it", got, want)
			}
		})
	}
}

// stopped runs a program until it stops itself, and reads the stack of its stopped thread.
func stopped(t *testing.T, set *Set, program string) (*Process, Snapshot) {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		t.Skip("needs ptrace: ", err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Process.Wait() })
	lines := bufio.NewReader(out)
	pid := cmd.Process.Pid
	var status syscall.WaitStatus
	// The stop of exec, then signals of the runtime's own, until the one that was asked for.
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || !status.Stopped() {
			t.Fatalf("the program ended: %v %v", status, err)
		}
		if status.StopSignal() == syscall.SIGSTOP {
			break
		}
		signal := int(status.StopSignal())
		if signal == int(syscall.SIGTRAP) {
			signal = 0
		}
		if err := syscall.PtraceCont(pid, signal); err != nil {
			t.Fatal(err)
		}
	}
	if line, err := lines.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the program said %q, %v", line, err)
	}
	ticks, _, err := startTicks(pid)
	if err != nil {
		t.Fatal(err)
	}
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &regs); err != nil {
		t.Fatal(err)
	}
	registers, sp := kernelOrder(&regs)
	mem, err := os.Open("/proc/" + strconv.Itoa(pid) + "/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	stack := make([]byte, 4096)
	n, _ := mem.ReadAt(stack, int64(sp))
	return set.See(ID{pid, ticks*nsPerTick + 1}), SnapshotOf(registers, stack[:n], nil)
}
