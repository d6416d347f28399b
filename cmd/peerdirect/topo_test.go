package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/peerdirect/peerdirect/internal/golden"
	"github.com/peerdirect/peerdirect/internal/sysroot"
	"github.com/peerdirect/peerdirect/pci"
	"github.com/peerdirect/peerdirect/pci/report"
)

func TestTopoViews(t *testing.T) {
	root := topoRoot(t, "")
	swapped := overrides(t, "GPU0 = mlx5_2\nGPU1 = mlx5_0, mlx5_1\n")
	for _, c := range []struct {
		golden string
		args   []string
	}{
		{"topo-tree.txt", nil},
		{"topo-matrix.txt", []string{"--matrix"}},
		{"topo-pairs.txt", []string{"--pairs"}},
		{"topo-pairs-one.txt", []string{"--pairs", "--rails", "1"}},
		{"topo-pairs-overrides.txt", []string{"--pairs", "--overrides", swapped}},
		{"topo-findings.txt", []string{"--findings"}},
		{"topo-findings-overrides.txt", []string{"--findings", "--overrides", swapped}},
	} {
		t.Run(c.golden, func(t *testing.T) {
			args := append([]string{"--sysroot", root, "--pci-ids", "testdata/topo.ids"}, c.args...)
			code, stdout, stderr := topoRun(t, nil, args...)
			if code != exitOK || stderr != "" {
				t.Errorf("exit %d, %s", code, stderr)
			}
			golden.Check(t, c.golden, []byte(strings.ReplaceAll(stdout, root, "CAPTURE")))
		})
	}
}

func TestTopoJSON(t *testing.T) {
	root := topoRoot(t, "")
	code, stdout, stderr := topoRun(t, nil, "--sysroot", root, "--json", "--rails", "1", "--pci-ids", "testdata/topo.ids")
	type pair struct {
		Accelerator string   `json:"accelerator"`
		Rails       []string `json:"rails"`
		Class       string   `json:"class"`
	}
	var got struct {
		Schema   string            `json:"schema"`
		Source   string            `json:"source"`
		Devices  []json.RawMessage `json:"devices"`
		Pairs    []pair            `json:"pairs"`
		Unpaired []string          `json:"unpaired"`
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitOK || stderr != "" {
		t.Fatalf("exit %d, %v, %s", code, err, stderr)
	}
	if got.Schema != report.Schema || got.Source != root || len(got.Devices) != len(topoMachine) {
		t.Errorf("%s of %s: %d devices", got.Schema, got.Source, len(got.Devices))
	}
	want := []pair{
		{"0000:03:00.0", []string{"0000:04:00.0"}, "PIX"},
		{"0000:83:00.0", []string{"0000:84:00.0"}, "PIX"},
	}
	if diff := cmp.Diff(want, got.Pairs); diff != "" || fmt.Sprint(got.Unpaired) != "[0000:05:00.0]" {
		t.Errorf("%s\nnobody's are %v", diff, got.Unpaired)
	}
	if !strings.Contains(stdout, "H100 SXM5") {
		t.Error("the names of --pci-ids are missing")
	}
}

// What one form of a machine says, another says too: here which NICs are rails.
func TestTopoReadsWhatItWrites(t *testing.T) {
	root := topoRoot(t, "")
	_, want, _ := topoRun(t, nil, "--sysroot", root, "--matrix")
	file := filepath.Join(t.TempDir(), "nccl.xml")
	if code, stdout, stderr := topoRun(t, nil, "--sysroot", root, "--nccl-xml", file); code != exitOK || stdout+stderr != "" {
		t.Fatalf("exit %d: %s%s", code, stdout, stderr)
	}
	for _, from := range []string{file, "-"} {
		text, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer text.Close()
		code, got, stderr := topoRun(t, text, "--from", from, "--matrix")
		// NCCL's file has no CPU lists of devices, but the classes.
		if code != exitOK || classes(got) != classes(want) {
			t.Errorf("--from %s: exit %d, %s\n%s\nwant\n%s", from, code, stderr, got, want)
		}
	}
}

func TestTopoOfHwloc(t *testing.T) {
	const text = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" gp_index="1">
    <object type="NUMANode" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" gp_index="2" local_memory="1073741824"/>
    <object type="Bridge" gp_index="3" bridge_type="0-1" depth="0" bridge_pci="0000:[00-01]">
      <object type="Bridge" gp_index="4" bridge_type="1-1" depth="1" bridge_pci="0000:[01-01]" pci_busid="0000:00:01.0" pci_type="0604 [8086:352a] [0000:0000] 11" pci_link_speed="63.015385">
        <object type="PCIDev" gp_index="5" pci_busid="0000:01:00.0" pci_type="0302 [10de:2330] [0000:0000] a1" pci_link_speed="63.015385"/>
      </object>
    </object>
  </object>
</topology>`
	code, stdout, stderr := topoRun(t, strings.NewReader(text), "--from", "-")
	if code != exitOK || !strings.Contains(stdout, "1 accelerator") || !strings.Contains(stdout, "01:00.0") || stderr != "" {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
}

// classes are the rows of a matrix up to the affinities.
func classes(matrix string) string {
	var b strings.Builder
	for line := range strings.Lines(matrix) {
		words := strings.Fields(line)
		if len(words) > 5 && (strings.HasPrefix(words[0], "GPU") || strings.HasPrefix(words[0], "NIC")) {
			fmt.Fprintln(&b, words[:6])
		}
	}
	return b.String()
}

func TestTopoSVG(t *testing.T) {
	root := topoRoot(t, "")
	folder := t.TempDir()
	file := filepath.Join(folder, "node.svg")
	code, stdout, stderr := topoRun(t, nil, "--sysroot", root, "--svg", file, "--scheme", "dark", "--pairs")
	if code != exitOK || !strings.Contains(stdout, "mlx5_2") || stderr != "" {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
	picture, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(picture, []byte("mlx5_2")) || bytes.Contains(picture, []byte("prefers-color-scheme")) {
		t.Errorf("%v\n%s", err, picture)
	}
	if err := xml.Unmarshal(picture, new(struct{})); err != nil {
		t.Error(err)
	}
	if code, stdout, _ := topoRun(t, nil, "--sysroot", root, "--svg", "-"); code != exitOK || !strings.HasPrefix(stdout, "<svg") {
		t.Errorf("exit %d: %.80s", code, stdout)
	}
	if entries, _ := os.ReadDir(folder); len(entries) != 1 {
		t.Errorf("more than the picture is left: %v", entries)
	}
}

func TestTopoUsage(t *testing.T) {
	root, file := topoRoot(t, ""), filepath.Join(t.TempDir(), "file")
	text := func(s string) string { return overrides(t, s) }
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"argument":               {[]string{"GPU0"}, exitUsage, `unknown command "GPU0"`},
		"two views":              {[]string{"--matrix", "--json"}, exitUsage, "--matrix and --json: choose one"},
		"two on standard output": {[]string{"--svg", "-", "--pairs"}, exitUsage, "--pairs and --svg -"},
		"files on it":            {[]string{"--svg", "-", "--nccl-xml", "-"}, exitUsage, "choose one"},
		"one file twice":         {[]string{"--svg", file, "--nccl-xml", file}, exitUsage, "the same file"},
		"two machines":           {[]string{"--from", file, "--sysroot", root}, exitUsage, "choose one"},
		"no name":                {[]string{"--svg", ""}, exitUsage, "--svg needs a name"},
		"scheme alone":           {[]string{"--scheme", "dark"}, exitUsage, "--svg"},
		"scheme":                 {[]string{"--svg", file, "--scheme", "blue"}, exitUsage, "auto, light, dark"},
		"rails":                  {[]string{"--rails", "-1"}, exitUsage, "--rails -1"},
		"rails without rails":    {[]string{"--matrix", "--rails", "1"}, exitUsage, "--rails"},
		"overrides in vain":      {[]string{"--nccl-xml", "-", "--overrides", file}, exitUsage, "--overrides"},
		"all of a matrix":        {[]string{"--matrix", "--all"}, exitUsage, "--all"},
		"interval alone":         {[]string{"--interval", "2s"}, exitUsage, "--watch"},
		"interval too short":     {[]string{"--watch", "--interval", "1ms"}, exitUsage, "50ms"},
		"watch a view":           {[]string{"--watch", "--pairs"}, exitUsage, "--pairs"},
		"watch a capture":        {[]string{"--watch", "--sysroot", root}, exitUsage, "--sysroot"},
		"no such folder":         {[]string{"--sysroot", root + "/missing"}, exitFailed, "missing"},
		"no capture":             {[]string{"--sysroot", text("no tar")}, exitFailed, "no tar"},
		"XML for a capture":      {[]string{"--sysroot", text("<system/>")}, exitFailed, "--from"},
		"nothing in a folder":    {[]string{"--sysroot", t.TempDir()}, exitNoDevice, "holds sys"},
		"no such file":           {[]string{"--from", file}, exitFailed, file},
		"no XML":                 {[]string{"--from", text("GPU0 = mlx5_0")}, exitFailed, "no XML"},
		"nothing":                {[]string{"--from", text("")}, exitFailed, "no XML"},
		"no device of NCCL":      {[]string{"--from", text(`<system version="1"></system>`)}, exitNoDevice, "no PCI device"},
		"no device of hwloc":     {[]string{"--from", text(`<topology version="2.0"></topology>`)}, exitNoDevice, "no PCI device"},
		"NCCL's, cut":            {[]string{"--from", text(`<system version="1"><cpu`)}, exitFailed, "EOF"},
		"hwloc's, cut":           {[]string{"--from", text(`<topology version="2.0"><object`)}, exitFailed, "EOF"},
		"other XML":              {[]string{"--from", text("<!-- x --><svg/>")}, exitFailed, "<svg>"},
		"no overrides":           {[]string{"--overrides", file}, exitFailed, file},
		"overrides":              {[]string{"--overrides", text("# rails\nGPU0: mlx5_0")}, exitUsage, "rails:2: "},
		"override of another":    {[]string{"--sysroot", root, "--overrides", text("GPU0 = mlx5_0\n\nGPU1 = mlx5_9")}, exitUsage, "rails:3: no such device: mlx5_9"},
		"no pci.ids":             {[]string{"--sysroot", root, "--pci-ids", file}, exitFailed, file},
		"no folder to write in":  {[]string{"--sysroot", root, "--svg", file + "/x.svg"}, exitFailed, file},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := topoRun(t, nil, c.args...)
			if code != c.code || !strings.Contains(stderr, c.want) || stdout != "" {
				t.Errorf("exit %d, stdout %q, stderr %q; want exit %d and %q", code, stdout, stderr, c.code, c.want)
			}
			lines := 1
			if code == exitUsage {
				lines = 2
			}
			if strings.Count(stderr, "\n") != lines {
				t.Errorf("not %d lines: %q", lines, stderr)
			}
		})
	}
}

// Parts that cannot be read are told, a few of them, and fail nothing.
func TestTopoProblems(t *testing.T) {
	more := ""
	for i, attribute := range []string{"vendor", "device", "class", "numa_node", "local_cpulist", "current_link_width", "revision", "subsystem_vendor"} {
		more += fmt.Sprintf("sys/devices/%s/%s = \x1b[2J%d\n", topoMachine[5].path, attribute, i)
	}
	root := topoRoot(t, more)
	code, stdout, stderr := topoRun(t, nil, "--sysroot", root)
	if code != exitOK || stdout == "" || strings.Count(stderr, "\n") != 6 || strings.Contains(stderr, "\x1b") || !strings.Contains(stderr, "--json has all") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	code, stdout, stderr = topoRun(t, nil, "--sysroot", root, "--json")
	var document struct {
		Problems []json.RawMessage `json:"problems"`
	}
	if err := json.Unmarshal([]byte(stdout), &document); err != nil || code != exitOK || len(document.Problems) < 6 || !strings.Contains(stderr, `"problems"`) {
		t.Errorf("exit %d, %v, %d problems, %s", code, err, len(document.Problems), stderr)
	}
}

func TestTopoWithoutPermission(t *testing.T) {
	denied := &pci.Error{Op: "list", Object: "sys/bus/pci/devices", Err: os.ErrPermission}
	err := topoSource("").failure(fmt.Errorf("%w", denied))
	if exitCode(err) != exitPermission || !strings.Contains(err.Error(), "root") {
		t.Error(err)
	}
	if _, err := pci.Read(os.DirFS(t.TempDir())); exitCode(topoSource("").failure(err)) != exitNoDevice {
		t.Error(err)
	}
}

// A terminal on standard input says nothing until somebody types.
func TestTopoEndsWithoutItsInput(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, flag := range []string{"--from", "--sysroot"} {
		var out, words bytes.Buffer
		if code := run(ctx, []string{"topo", flag, "-"}, r, &out, &words); code != exitFailed || !strings.Contains(words.String(), "interrupted") {
			t.Errorf("exit %d: %s", code, &words)
		}
	}
}

// This machine's own topology, whatever it is.
func TestTopoOfThisMachine(t *testing.T) {
	root, err := sysroot.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	topo, _ := pci.Read(root)
	code, stdout, stderr := topoRun(t, nil, "--all")
	if topo == nil {
		if code != exitNoDevice || stdout != "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("exit %d: %s%s", code, stdout, stderr)
		}
		return
	}
	if code != exitOK {
		t.Errorf("exit %d: %s", code, stderr)
	}
	for _, d := range topo.Devices {
		short := strings.TrimPrefix(d.Address.String(), "0000:")
		if !strings.Contains(stdout, short) {
			t.Errorf("%s is missing:\n%s", d.Address, stdout)
		}
	}
}

// Whoever reads a file after its root element was looked for reads all of it.
func FuzzRootElement(f *testing.F) {
	f.Add("<?xml version='1.0' encoding='latin1'?><!-- x --><system version='1'/>")
	f.Add("<topology><object/></topology>")
	f.Add("\x1f\x8b")
	f.Fuzz(func(t *testing.T, text string) {
		element, rest, err := rootElement(strings.NewReader(text))
		if err != nil {
			return
		}
		if all, err := io.ReadAll(rest); err != nil || string(all) != text || !strings.Contains(text, element) {
			t.Errorf("<%s>, then %q, %v", element, all, err)
		}
	})
}
