//go:build lab

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// moduleUsers is how often a module is held.
func moduleUsers(t *testing.T, module string) int {
	t.Helper()
	text, err := os.ReadFile("/sys/module/" + module + "/refcnt")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestTraceLeavesNothing kills the tracer: what held modules is gone with it.
func TestTraceLeavesNothing(t *testing.T) {
	program := registrar(t)
	before := moduleUsers(t, "ib_uverbs")
	tr := startTracing(t)
	program.run(t, 4096, 10)
	held := moduleUsers(t, "ib_uverbs")
	tr.cmd.Process.Kill()
	tr.cmd.Wait()
	for range 100 {
		if moduleUsers(t, "ib_uverbs") == before {
			t.Logf("ib_uverbs was held %d times, and %d while it was traced", before, held)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("ib_uverbs is held %d times, %d before the trace", moduleUsers(t, "ib_uverbs"), before)
}

// rxe gives how the device's driver is unloaded, and loaded with its device again.
func rxe(t *testing.T) (unload, load func()) {
	t.Helper()
	device := labDevice(t)
	link := output(t, "rdma", "link", "show", device+"/1")
	fields := strings.Fields(link)
	netdev := fields[len(fields)-1]
	if _, err := os.Stat("/sys/module/rdma_rxe"); err != nil || !strings.Contains(link, "netdev") {
		t.Skip("needs a device of rxe, whose driver can be unloaded here: lab run --link rxe")
	}
	return func() {
			output(t, "rdma", "link", "delete", device)
			output(t, "rmmod", "rdma_rxe")
		}, func() {
			output(t, "modprobe", "rdma_rxe")
			output(t, "rdma", "link", "add", device, "type", "rxe", "netdev", netdev)
		}
}

// TestTracePicksUpDrivers loads the driver under a trace.
func TestTracePicksUpDrivers(t *testing.T) {
	unload, load := rxe(t)
	program := registrar(t)
	unload()
	tr := startTracing(t)
	load()
	tr.expect(t, "attaching to the driver", func(r traceRecord) bool { return r.Record == "notice" && r.Event == "renewed" })
	pid := program.run(t, 4096, 30)
	all := tr.end(t, syscall.SIGINT)
	if r := rowOf(all, pid, "register"); r.Whole.Count != 30 || r.Phases["driver"].Count != 30 {
		t.Errorf("%+v", r)
	}
	for what, n := range all[len(all)-1].Lost {
		if n != 0 {
			t.Errorf("%d %s were lost", n, what)
		}
	}
}

// TestTraceLetsDriversGo unloads rxe under a trace that was told to detach, loads it
// again, and goes on.
func TestTraceLetsDriversGo(t *testing.T) {
	unload, load := rxe(t)
	program := registrar(t)
	tr := startTracing(t, "--interval", "1s")
	first := program.run(t, 4096, 30)
	tr.signal(t, syscall.SIGUSR1)
	tr.expect(t, "detaching", func(r traceRecord) bool { return r.Record == "notice" && r.Event == "detached" })
	tr.tells(t, "drivers can be unloaded")
	unseen := program.run(t, 4096, 30)
	unload()
	load()
	tr.signal(t, syscall.SIGUSR1)
	tr.expect(t, "attaching", func(r traceRecord) bool { return r.Record == "notice" && r.Event == "attached" })
	second := program.run(t, 4096, 30)
	all := tr.end(t, syscall.SIGINT)
	for pid, want := range map[int]uint64{first: 30, unseen: 0, second: 30} {
		if r := rowOf(all, pid, "register"); r.Whole.Count != want {
			t.Errorf("%d of %d calls: %+v", r.Whole.Count, want, r)
		}
	}
	if r := rowOf(all, second, "register"); r.Phases["driver"].Count != 30 {
		t.Errorf("the driver that was loaded again is not seen: %+v", r.Phases)
	}
}

// TestTraceBudget asks for less than tracing can cost: probes go, and it is said.
func TestTraceBudget(t *testing.T) {
	tr := startTracing(t, "--max-overhead", "0.0001%", "--slower-than", "1h")
	busy := registrar(t).command(64<<10, 1000000)
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	r := tr.expect(t, "detaching over the budget", func(r traceRecord) bool {
		return r.Record == "notice" && (r.Event == "shed" || r.Event == "detached")
	})
	busy.Process.Kill()
	busy.Wait()
	t.Log(r.Text)
	for _, e := range tr.end(t, syscall.SIGINT) {
		if e.Record == "event" {
			t.Errorf("not as slow: %+v", e)
		}
	}
	tr.tells(t, "of the time of all CPUs")
}

// TestTraceCrowd sees more processes than the kernel's table of histograms has room for
// (1024 rows, two of a process): none may be lost.
func TestTraceCrowd(t *testing.T)           { testTraceCrowd(t) }
func TestTraceCrowdBySyscalls(t *testing.T) { testTraceCrowd(t, "--by-syscalls") }

func testTraceCrowd(t *testing.T, flags ...string) {
	const processes = 540
	crowd := filepath.Join(t.TempDir(), "crowd")
	if out, err := exec.Command("gcc", "-O2", "-o", crowd, "../../ebpfprobes/testdata/crowd.c", "-libverbs").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	tr := startTracing(t, flags...)
	output(t, crowd, labDevice(t), strconv.Itoa(processes))
	var registered, deregistered, rows uint64
	for _, r := range tr.end(t, syscall.SIGINT) {
		switch {
		case r.Record == "row" && *r.Process == "crowd":
			rows++
			if *r.Operation == "register" {
				registered += r.Whole.Count
			} else {
				deregistered += r.Whole.Count
			}
		case r.Record == "tracing":
			for what, n := range r.Lost {
				if n != 0 {
					t.Errorf("%d %s were lost", n, what)
				}
			}
		}
	}
	if registered != processes || deregistered != processes || rows >= 2*processes {
		t.Errorf("%d and %d calls of %d, in %d rows", registered, deregistered, processes, rows)
	}
}
