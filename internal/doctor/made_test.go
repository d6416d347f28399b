package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"
	"testing/fstest"
)

func machine(t *testing.T, lines ...string) *System {
	t.Helper()
	return NewSystem(root(t, lines...), false)
}

// running is a machine that is taken for the running one.
func running(t *testing.T, lines ...string) *System {
	t.Helper()
	return NewSystem(root(t, lines...), true)
}

// root makes a small system: "path = text", "path -> target" and "path/", a line each.
// In text "\n" is a line break and "\t" a tab.
func root(t *testing.T, lines ...string) fstest.MapFS {
	t.Helper()
	m := fstest.MapFS{}
	for line := range strings.SplitSeq(strings.Join(lines, "\n"), "\n") {
		line = strings.TrimLeft(line, "\t")
		name, text, file := strings.Cut(line, " = ")
		at, target, link := strings.Cut(line, " -> ")
		switch {
		case line == "":
		case file:
			m[name] = &fstest.MapFile{Data: []byte(escapes.Replace(text) + "\n"), Mode: 0o644}
		case link:
			m[at] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
		case strings.HasSuffix(line, "/"):
			m[strings.TrimSuffix(line, "/")] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
		default:
			t.Fatalf("%q is no line of a root", line)
		}
	}
	return m
}

var escapes = strings.NewReplacer(`\n`, "\n", `\t`, "\t")

// function gives the lines of a PCI function below a root port; driver may be "".
func function(address, vendor, device, class, driver string) string {
	at := "sys/devices/pci0000:00/0000:00:01.0/" + address
	lines := []string{
		"sys/devices/pci0000:00/0000:00:01.0/vendor = 0x8086",
		"sys/devices/pci0000:00/0000:00:01.0/device = 0x352a",
		"sys/devices/pci0000:00/0000:00:01.0/class = 0x060400",
		"sys/bus/pci/devices/0000:00:01.0 -> ../../../devices/pci0000:00/0000:00:01.0",
		"sys/bus/pci/devices/" + address + " -> ../../../devices/pci0000:00/0000:00:01.0/" + address,
		at + "/vendor = 0x" + vendor, at + "/device = 0x" + device, at + "/class = 0x" + class,
		at + "/subsystem_vendor = 0x0000", at + "/subsystem_device = 0x0000",
		"sys/bus/pci/drivers/",
	}
	if driver != "" {
		lines = append(lines, at+"/driver -> ../../../../bus/pci/drivers/"+driver, "sys/bus/pci/drivers/"+driver+"/")
	}
	return strings.Join(lines, "\n")
}

const (
	nicAt, gpuAt = "0000:01:00.0", "0000:02:00.0"
	kernelIs     = "proc/sys/kernel/osrelease = 6.12.0\n"
	tree         = "lib/modules/6.12.0/"
)

func nic(driver string) string { return function(nicAt, "15b3", "1021", "020700", driver) }
func gpu(driver string) string { return function(gpuAt, "10de", "2330", "030200", driver) }

// told prints findings, a line each: what a table of tests wants of them.
func told(found []Finding) string {
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "%v %s: %s", f.Verdict, f.Subject, f.Summary)
		if f.Verdict == Fail {
			fmt.Fprintf(&b, " {%v}", f.Cause)
		}
		for _, c := range f.Commands {
			fmt.Fprintf(&b, " $ %s", c)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// want fails the test where what was told lacks one of the words, which are
// separated by "|"; a word that begins with "!" must not be there.
func want(t *testing.T, got, words string) {
	t.Helper()
	for word := range strings.SplitSeq(words, "|") {
		if unwanted, ok := strings.CutPrefix(word, "!"); ok {
			if strings.Contains(got, unwanted) {
				t.Errorf("%q is in\n%s", unwanted, got)
			}
		} else if !strings.Contains(got, word) {
			t.Errorf("%q is not in\n%s", word, got)
		}
	}
}

// runCheck runs the one of that name, through Run as the command does.
func runCheck(t *testing.T, s *System, name string) (found []Finding) {
	t.Helper()
	checks, err := Select(Checks(), []string{name}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), s, checks, func(_ Check, f []Finding) { found = append(found, f...) }); err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		sound(t, f)
	}
	return found
}

// sound holds a finding to what all of them promise.
func sound(t *testing.T, f Finding) {
	t.Helper()
	switch {
	case f.Check == "" || f.Summary == "":
		t.Errorf("it says nothing: %+v", f)
	case f.Verdict >= Unknown && len(f.Evidence) == 0:
		t.Errorf("no evidence: %+v", f)
	case f.Verdict >= Warn && f.Remedy == "":
		t.Errorf("no remedy: %+v", f)
	case f.Verdict != Fail && f.Cause != CauseOther:
		t.Errorf("a cause of no failure: %+v", f)
	case strings.Contains(f.Summary, "\n"):
		t.Errorf("two lines: %q", f.Summary)
	}
	for _, e := range f.Evidence {
		if file, _, ok := strings.Cut(e, ": "); ok && strings.HasPrefix(file, "/") && !strings.Contains(file, " ") && path.Clean(file) != file {
			t.Errorf("%q is no path", file)
		}
	}
}
