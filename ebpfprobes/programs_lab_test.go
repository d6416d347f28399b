//go:build lab

package ebpfprobes_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// program is one of testdata at work: a third party, which knows what it did.
type program struct {
	cmd *exec.Cmd
	in  *os.File
	out *bufio.Reader
}

// compile builds a program of testdata.
func compile(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	out, err := exec.Command("gcc", "-O2", "-Wall", "-o", path, "testdata/"+name+".c", "-libverbs", "-lpthread").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// start runs a program until it says that it is ready.
func start(t testing.TB, path string, arguments ...string) *program {
	t.Helper()
	p := &program{cmd: exec.Command(path, arguments...)}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.cmd.Stdin, p.cmd.Stderr = write, read, os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read.Close()
	t.Cleanup(p.end)
	p.out = bufio.NewReader(out)
	if said := p.line(t); said != "ready" {
		t.Fatalf("%s said %q", filepath.Base(path), said)
	}
	return p
}

// end lets the program end, if it has not.
func (p *program) end() {
	p.in.Close()
	p.cmd.Wait()
}

// line reads what the program says next.
func (p *program) line(t testing.TB) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("%s: %v", filepath.Base(p.cmd.Path), err)
	}
	return strings.TrimSpace(line)
}

// tell sends the program on.
func (p *program) tell(t testing.TB) {
	t.Helper()
	if _, err := p.in.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
}

// device is the RDMA device of the machine.
func device(t *testing.T) string {
	t.Helper()
	name := os.Getenv("PEERDIRECT_DEVICE")
	if name == "" {
		t.Skip("needs an RDMA device: run it in the lab")
	}
	return name
}

// attachedPrograms counts the BPF links and programs that this process holds.
func attachedPrograms(t *testing.T) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		to, _ := os.Readlink("/proc/self/fd/" + e.Name())
		if strings.Contains(to, "bpf") {
			n++
		}
	}
	return n
}

// needUdmabuf skips where the kernel makes no dma-bufs of host memory.
func needUdmabuf(t *testing.T) {
	t.Helper()
	exec.Command("modprobe", "udmabuf").Run()
	if _, err := os.Stat("/dev/udmabuf"); err != nil {
		t.Skip("needs /dev/udmabuf: ", err)
	}
}
