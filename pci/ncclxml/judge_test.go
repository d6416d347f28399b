package ncclxml

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/pci"
)

// The files of NCCL that read a topology and weigh it, and what these need.
var judgeParts = []string{"graph/xml.cc", "graph/topo.cc", "graph/paths.cc", "misc/param.cc", "misc/utils.cc", "os/linux.cc", "debug.cc"}

// buildJudge compiles testdata/judge with the source of NCCL, and gives its version.
func buildJudge(t *testing.T) (program, version string) {
	t.Helper()
	source := os.Getenv("NCCL_SOURCE")
	if source == "" {
		t.Skip("NCCL_SOURCE names NCCL's source tree; scripts/judge-nccl gets it")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	// Its build makes nccl.h out of a template.
	header := read("src/nccl.h.in")
	var numbers []string
	for _, part := range []string{"Major", "Minor", "Patch", "Suffix"} {
		m := regexp.MustCompile(`(?m)^NCCL_` + strings.ToUpper(part) + `\s*:=\s*(\w*)$`).FindStringSubmatch(read("makefiles/version.mk"))
		if m == nil {
			t.Fatalf("%s/makefiles/version.mk tells no %s", source, part)
		}
		header = strings.ReplaceAll(header, "${nccl:"+part+"}", m[1])
		numbers = append(numbers, m[1])
	}
	write("nccl.h", strings.ReplaceAll(header, "${nccl:Version}", "0"))
	for _, name := range []string{"cuda_runtime.h", "cuda_fp16.h", "cuda_fp8.h", "cuda_bf16.h", "cuda/atomic"} {
		write(name, "#include \"cuda.h\"\n")
	}
	program = filepath.Join(dir, "judge")
	args := []string{"-std=c++17", "-O1", "-w", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections",
		"-DNCCL_OS_LINUX", "-include", "testdata/judge/prelude.h", "-Itestdata/judge", "-I" + dir,
		"-I" + source + "/src/include", "-I" + source + "/src/include/plugin", "-I" + source + "/src/graph",
		"-I" + source + "/src", "-o", program, "testdata/judge/judge.cc"}
	for _, part := range judgeParts {
		args = append(args, filepath.Join(source, "src", part))
	}
	if out, err := exec.Command("g++", args...).CombinedOutput(); err != nil {
		t.Fatalf("g++: %v\n%s", err, out)
	}
	return program, strings.Join(numbers[:3], ".")
}

// verdict is what NCCL makes of a machine: the path of each pair, and below what each
// device hangs, with the bandwidth of the link.
type verdict struct{ paths, links map[string]string }

// judge asks NCCL; the arguments are those of the program.
func judge(t *testing.T, program, file, dir string, devices []*pci.Device) verdict {
	t.Helper()
	var in bytes.Buffer
	for _, d := range devices {
		kind := "nic"
		if d.Kind == pci.Accelerator {
			kind = "gpu"
		}
		fmt.Fprintln(&in, kind, d.Address)
	}
	cmd := exec.Command(program, file, dir)
	cmd.Stdin, cmd.Env = &in, append(os.Environ(), "NCCL_DEBUG=WARN")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	v := verdict{map[string]string{}, map[string]string{}}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		switch {
		case len(f) == 6 && f[0] == "path":
			v.paths[f[2]+" "+f[4]] = f[5]
		case len(f) == 6 && f[0] == "link":
			v.links[f[2]] = f[4] + " " + f[5]
		default:
			t.Errorf("NCCL says: %s", line)
		}
	}
	return v
}

// judgeFile asks NCCL of a file.
func judgeFile(t *testing.T, program string, text []byte, devices []*pci.Device) verdict {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "topology.xml")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return judge(t, program, file, dir, devices)
}

// inNCCL are the classes in its words: it has no root complexes. Of what is unknown
// it has no word.
var inNCCL = map[string]string{"PIX": "PIX", "PXB": "PXB", "PHB": "PHB", "NODE": "PHB", "C2C": "PHB", "SYS": "SYS"}

// TestNCCL asks NCCL's own code.
func TestNCCL(t *testing.T) {
	program, version := buildJudge(t)
	t.Run("Files", func(t *testing.T) { judgeFiles(t, program, version) })
	t.Run("Itself", func(t *testing.T) { judgeItself(t, program, version) })
}

// judgeFiles feeds it the files of every machine: each pair is as far apart as we find
// it, and each device hangs where the file has it.
func judgeFiles(t *testing.T, program, version string) {
	machines := map[string]*pci.Topology{"a full file": crowd(16, 300)}
	for seed := range uint64(50) {
		machines[fmt.Sprint("random ", seed)] = random(seed)
	}
	for _, file := range corpus(t, "sysfs/*.tar.[gb]z*") {
		machines[filepath.Base(file)] = captured(t, file)
	}
	for _, file := range corpus(t, "nccl-xml/*.xml") {
		machines[filepath.Base(file)] = readFile(t, file)
	}
	for _, name := range slices.Sorted(maps.Keys(machines)) {
		t.Run(name, func(t *testing.T) {
			topo := machines[name]
			text := written(t, topo)
			after, _ := Read(bytes.NewReader(text))
			if after == nil {
				after = &pci.Topology{}
			}
			devices := ends(after)
			if len(after.Of(pci.Accelerator)) == 0 {
				// NCCL has no process without a GPU: one that is not in the file.
				devices = append(devices, &pci.Device{Address: pci.Address{Domain: 0xfffe}, Kind: pci.Accelerator})
			}
			v := judgeFile(t, program, text, devices)
			total, equal := 0, 0
			for pair, class := range classes(topo) {
				if _, ok := v.paths[pair]; class == "unknown" || !ok && name == "a full file" {
					continue
				}
				total++
				if v.paths[pair] == inNCCL[class] {
					equal++
				} else {
					t.Errorf("%s is %s; NCCL finds %q", pair, class, v.paths[pair])
				}
			}
			for _, d := range ends(after) {
				up := "-1"
				if d.Parent != nil {
					up = d.Parent.Address.String()
				} else if d.Node != nil {
					up = fmt.Sprint(d.Node.Number)
				}
				if got, _, _ := strings.Cut(v.links[d.Address.String()], " "); got != up {
					t.Errorf("%s is below %q for NCCL; want %s", d.Address, got, up)
				}
			}
			if !strings.HasPrefix(name, "random") {
				t.Logf("%s pairs %d/%d (NCCL %s)", name, equal, total, version)
			}
		})
	}
}
