//go:build lab

package ebpfprobes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/usdt"
)

// tracefs is where the kernel takes probes as text, as perf and bpftrace may too.
const tracefs = "/sys/kernel/tracing"

// TestMarkersPair has the kernel's own tracer at both sites, by what their notes say, and
// without a program of this project: each mark of a post is followed by that of the
// same operation's completion.
func TestMarkersPair(t *testing.T) {
	dev := rxeDevice(t)
	f, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	probes, err := usdt.Read(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	file, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	names := [...]string{"device", "qp", "opcode", "bytes", "id", "last", "ns"}
	for _, p := range probes {
		line := fmt.Sprintf("p:marks/%s %s:%#x(%#x)", p.Name, file, p.Site, p.Semaphore)
		for i, a := range strings.Fields(p.Arguments) {
			line += " " + names[i] + "=" + fetch(t, a)
		}
		appendTo(t, "uprobe_events", strings.Replace(line, ":u64", ":ustring", 1))
	}
	defer appendTo(t, "uprobe_events", "-:marks/post\n-:marks/complete")
	p := startMarked(t, os.Args[0], "perf read bw 4096 1000")
	if on := p.ask(t, "on"); on != "false" {
		t.Errorf("traced before the probes were: %s", on)
	}
	appendTo(t, "trace_clock", "mono") // the same on every processor
	appendTo(t, "events/marks/enable", "1")
	p.ask(t, "run")
	appendTo(t, "events/marks/enable", "0")
	if on := p.ask(t, "on"); on != "false" {
		t.Errorf("traced after the probes were: %s", on)
	}
	text, err := os.ReadFile(tracefs + "/trace")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(post|complete): \(\w+\) device="([^"]+)" (qp=\d+ opcode=4 bytes=4096 id=\d+) last=(\d+)(?: ns=(\d+))?`).FindAllStringSubmatch(string(text), -1)
	if len(found) < 2 || len(found)%2 != 0 || strings.Count(string(text), "device=") != len(found) {
		t.Fatalf("%d marks in\n%s", len(found), text)
	}
	for i := 0; i < len(found); i += 2 {
		post, complete := found[i], found[i+1]
		if post[1] != "post" || complete[1] != "complete" || post[2] != dev || complete[2] != dev || post[3] != complete[3] || complete[4] != "0" || complete[5] == "0" {
			t.Fatalf("%q is followed by %q", post[0], complete[0])
		}
	}
	t.Logf("%d pairs, as %q and %q", len(found)/2, found[0][0], found[1][0])
}

// fetch turns an argument's description into the kernel's: 4@32(%rdi) to +32(%di):u32.
func fetch(t *testing.T, argument string) string {
	t.Helper()
	m := regexp.MustCompile(`^([48])@(\d*)\(%rdi\)$`).FindStringSubmatch(argument)
	if m == nil {
		t.Skipf("argument %q: needs x86-64", argument)
	}
	kind := map[string]string{"4": "u32", "8": "u64"}[m[1]]
	if m[2] == "" {
		return "+0(+0(%di)):" + kind // the string that it points to
	}
	return "+" + m[2] + "(%di):" + kind
}

func appendTo(t *testing.T, file, text string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(tracefs, file), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, line := range strings.Split(text, "\n") {
		if _, err := f.WriteString(line + "\n"); err != nil {
			t.Fatalf("%s: %q: %v", file, line, err)
		}
	}
}
