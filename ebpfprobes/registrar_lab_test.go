//go:build lab

package ebpfprobes_test

import (
	"bufio"
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

// registrar runs the program: begin is called when it is there and has not registered
// anything, what it returns when the program has done all and is still there.
func registrar(t testing.TB, program, kind string, length, count int, begin func(pid int) (end func())) medians {
	t.Helper()
	cmd := exec.Command(program, rdmaDevice(t), kind, strconv.Itoa(length), strconv.Itoa(count), "wait")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	out := bufio.NewReader(pipe)
	if line, err := out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the registrar says %q: %v", line, err)
	}
	if begin != nil {
		defer begin(cmd.Process.Pid)()
	}
	fmt.Fprintln(in)
	var (
		m    medians
		n, k int
	)
	line, err := out.ReadString('\n')
	if _, scanErr := fmt.Sscanf(line, "register %d %g deregister %d %g\n", &n, &m.register, &k, &m.deregister); scanErr != nil || n != count {
		t.Fatalf("the registrar says %q: %v, %v", line, err, scanErr)
	}
	return m
}
