//go:build lab

package ebpfprobes_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// medians are what the registrar's stopwatch says of its calls, ns.
type medians struct{ register, deregister float64 }

// build compiles the registrar.
func build(t testing.TB) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "registrar")
	if out, err := exec.Command("gcc", "-O2", "-Wall", "-o", program, "testdata/registrar.c", "-libverbs").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// rdmaDevice is the machine's first RDMA device.
func rdmaDevice(t testing.TB) string {
	t.Helper()
	devices, err := os.ReadDir("/sys/class/infiniband")
	if err != nil || len(devices) == 0 {
		t.Fatalf("no RDMA device: %v", err)
	}
	return devices[0].Name()
}

// registering is a registrar at work, which registers the same memory in each round.
type registering struct {
	*program
	count int // calls a round
}

func startRegistrar(t testing.TB, path, kind string, length, count, rounds int) registering {
	t.Helper()
	return registering{start(t, path, rdmaDevice(t), kind, strconv.Itoa(length), strconv.Itoa(count), "wait", strconv.Itoa(rounds)), count}
}

// round lets it register, and gives what its stopwatch says.
func (r registering) round(t testing.TB) (m medians) {
	t.Helper()
	r.tell(t)
	line := r.line(t)
	var n, k int
	if _, err := fmt.Sscanf(line, "register %d %g deregister %d %g", &n, &m.register, &k, &m.deregister); err != nil || n != r.count {
		t.Fatalf("the registrar says %q: %v", line, err)
	}
	return m
}

// registrar runs the program: begin is called when it is there and has not registered
// anything, what it returns when the program has done all and is still there.
func registrar(t testing.TB, path, kind string, length, count int, begin func(pid int) (end func())) medians {
	t.Helper()
	r := startRegistrar(t, path, kind, length, count, 1)
	defer r.end()
	if begin != nil {
		defer begin(r.cmd.Process.Pid)()
	}
	return r.round(t)
}
