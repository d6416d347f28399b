//go:build lab

package main

import (
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestExamples runs those that need an RDMA device, both sides on this machine.
func TestExamples(t *testing.T) {
	if !strings.HasPrefix(os.Getenv("PEERDIRECT_DEVICE"), "rxe") || os.Getenv("PEERDIRECT_KERNEL") != "7.3" {
		t.Skip("needs an rxe device of kernel 7.3: examples use what siw and EFA lack, as atomics, and once is enough")
	}
	runLabExamples(t, "rxe")
}

func TestEFAExamples(t *testing.T) {
	if os.Getenv("PEERDIRECT_KERNEL") == "6.1" {
		t.Skip("needs RDMA write, which the efa driver of linux 6.1 lacks")
	}
	runLabExamples(t, "efa")
}

// TestTraceExamples traces a server of perf where an example names a process.
func TestTraceExamples(t *testing.T) {
	server := exec.Command("peerdirect", "perf", "write", "bw", "--port", "18516", "--timeout", "1h", "--device", os.Getenv("PEERDIRECT_DEVICE"))
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Wait()
	defer server.Process.Kill()
	runLabExamples(t, "trace", "4242", strconv.Itoa(server.Process.Pid))
}

func runLabExamples(t *testing.T, place string, names ...string) {
	program, err := exec.LookPath("peerdirect")
	if err != nil {
		t.Fatal(err)
	}
	// Both nodes of an example are this one. An address that it has already stays where it
	// is: rdma_cm, and tests that come after, look for the interface that has it.
	here, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{"192.0.2.1", "192.0.2.2"} {
		if slices.ContainsFunc(here, func(a net.Addr) bool { return strings.HasPrefix(a.String(), addr+"/") }) {
			continue
		}
		if out, err := exec.Command("ip", "address", "add", addr+"/32", "dev", "lo").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		t.Cleanup(func() {
			if out, err := exec.Command("ip", "address", "del", addr+"/32", "dev", "lo").CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	names = append(names, "mlx5_0", os.Getenv("PEERDIRECT_DEVICE"), "rxe0", os.Getenv("PEERDIRECT_DEVICE"))
	p := examplePlace{name: place, program: program, names: strings.NewReplacer(names...), prepare: prepareExamples}
	p.run(t)
}
