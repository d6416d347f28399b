//go:build lab

package main

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTraceFaultNoModule unloads what the uverbs interface is made of.
func TestTraceFaultNoModule(t *testing.T) {
	unload, load := rxe(t)
	unload()
	t.Cleanup(func() {
		output(t, "modprobe", "ib_uverbs")
		load()
	})
	output(t, "modprobe", "-r", "rdma_ucm", "ib_uverbs")
	for _, what := range traces {
		if what != "leaks" && what != "connections" { // which need ib_core alone
			refusedButMarks(t, what, "modprobe ib_uverbs")
		}
	}
	for exists("/sys/module/ib_core") { // kernels have other modules on it
		holders, err := os.ReadDir("/sys/module/ib_core/holders")
		if err != nil {
			t.Fatal(err)
		}
		unload := []string{"-r"}
		for _, h := range holders {
			unload = append(unload, h.Name())
		}
		output(t, "modprobe", append(unload, "ib_core")...)
	}
	for _, what := range traces {
		refusedButMarks(t, what, "modprobe ib_uverbs")
	}
	// As in a unit with ProtectKernelTunables=: the symbols are nobody's to read.
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.WriteFile(closed, nil, 0); err != nil {
		t.Fatal(err)
	}
	hide(t, closed, "/proc/kallsyms")
	program := forAll(t)
	for _, what := range traces {
		if what != "completions" { // which goes on without
			refused(t, program, nobody(unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN), what, exitUnsupported, "modprobe ib_uverbs")
		}
	}
	refused(t, program, nobody(), "registrations", exitPermission, "lacks CAP_BPF and CAP_PERFMON")
}
