package house

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// A room is a public package with what it stands on: those of the project that it
// imports itself, the modules of others that come along, all in all, and what it
// needs of the machine that builds it.
type room struct {
	name    string
	on      string
	modules string
	needs   string
}

const (
	sys  = "golang.org/x/sys"
	ebpf = "github.com/cilium/ebpf"
	hdr  = "github.com/HdrHistogram/hdrhistogram-go"
	xz   = "github.com/ulikunitz/xz"
	ghw  = "github.com/jaypipes/ghw github.com/jaypipes/pcidb"
	yaml = "gopkg.in/yaml.v3"
)

// rooms is the house of the public packages. An arrow that is not in it is a
// decision, and so is a module: who adds one says here and in docs/library.md why.
var rooms = []room{
	{"dmabuf", "", sys, "linux cgo"},
	{"ebpfprobes", "verbs/nldev", ebpf + " " + sys, "linux"},
	{"efa", "efa/device efa/wire verbs", sys, "linux cgo"}, // builds without cgo, too: then for embedded devices alone
	{"efa/device", "efa/wire", "", ""},
	{"efa/vfiouser", "", sys, "linux"},
	{"efa/wire", "", "", ""},
	{"pci", "", "", ""},
	{"pci/capture", "pci", xz + " " + sys, "linux"},
	{"pci/draw", "pci", "", ""},
	{"pci/hwlocxml", "pci", "", ""},
	{"pci/names", "pci", ghw + " " + sys + " " + yaml, "linux"},
	{"pci/ncclxml", "pci", "", ""},
	{"pci/report", "pci", "", ""},
	{"pci/watch", "pci", sys, "linux"},
	{"transfer", "dmabuf efa efa/device efa/wire verbs verbs/exchange", sys, "linux cgo"},
	{"transfer/control", "", sys, ""},
	{"transfer/engine", "dmabuf pci transfer transfer/control transfer/mrcache verbs", sys, "linux cgo"},
	{"transfer/mrcache", "", sys, "linux"},
	{"transfer/pages", "dmabuf efa/device pci transfer transfer/control transfer/engine verbs verbs/exchange", hdr + " " + sys, "linux cgo"},
	{"transfer/patterns", "", "", ""},
	{"transfer/patterns/kvcache", "transfer/engine", sys, "linux cgo"},
	{"transfer/patterns/ring", "transfer/engine", sys, "linux cgo"},
	{"transfer/patterns/weights", "transfer/engine", sys, "linux cgo"},
	{"transfer/railtest", "dmabuf efa transfer verbs verbs/exchange", sys, "linux cgo"},
	{"transfer/report", "transfer transfer/engine transfer/pages", hdr + " " + sys, "linux cgo"},
	{"transfer/sim", "transfer transfer/engine verbs", sys, "linux cgo"},
	{"verbs", "", sys, "linux cgo"},
	{"verbs/exchange", "verbs verbs/rdmacm", sys, "linux cgo"},
	{"verbs/nldev", "", sys, "linux"},
	{"verbs/rdmacm", "", sys, "linux"},
}

func TestRooms(t *testing.T) {
	all := packages(t)
	planned := map[string]room{}
	for _, r := range rooms {
		planned[r.name] = r
	}
	for _, p := range publics(t) {
		r, ok := planned[p.name()]
		if !ok {
			t.Errorf("%s is public and not in the house: give it a room here and in docs/library.md, or put it below internal", p.name())
			continue
		}
		delete(planned, p.name())
		for _, c := range []struct{ what, got, want string }{
			{"stands on", stands(p), r.on}, {"brings along", modules(all, p), r.modules}, {"needs", needs(p), r.needs},
		} {
			if c.got != c.want {
				t.Errorf("%s %s %q, the house says %q", p.name(), c.what, c.got, c.want)
			}
		}
	}
	for name := range planned {
		t.Errorf("the house has a room %s, the tree has none", name)
	}
}

func stands(p *listed) string {
	var on []string
	for _, i := range p.Imports {
		if name := strings.TrimPrefix(i, module+"/"); name != i && public(name) {
			on = append(on, name)
		}
	}
	return strings.Join(on, " ")
}

func modules(all map[string]*listed, p *listed) string {
	found := map[string]bool{}
	for _, d := range p.Deps {
		if m := all[d].Module; m != nil && m.Path != module {
			found[m.Path] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), " ")
}

func needs(p *listed) string {
	var found []string
	for _, need := range []string{"linux", "cgo"} {
		if slices.Contains(p.Deps, module+"/internal/needs/"+need) {
			found = append(found, need)
		}
	}
	return strings.Join(found, " ")
}

// What stands at the same height knows nothing of each other, over however many
// packages between; and nothing of the libraries comes from the upper floors.
func TestArrowsRunDownwards(t *testing.T) {
	apart := []string{"verbs", "dmabuf", "pci", "ebpfprobes"}
	tools := []string{ // below internal, and of the commands alone
		"internal/bench", "internal/dmabufprobe", "internal/doctor", "internal/golden", "internal/inventory", "internal/lab",
		"internal/outfile", "internal/perf", "internal/regbench", "internal/tracereport",
	}
	for _, p := range packages(t) {
		name := p.name()
		if name == "" {
			continue
		}
		for _, d := range p.Deps {
			dep := strings.TrimPrefix(d, module+"/")
			switch {
			case dep == d:
				if d == "net/http" && public(name) && name != "pci/names" {
					t.Errorf("%s brings net/http along", name)
				}
			case strings.HasPrefix(dep, "cmd/"):
				t.Errorf("%s imports the command %s", name, dep)
			case public(name) && slices.ContainsFunc(tools, func(tool string) bool { return within(dep, tool) }):
				t.Errorf("%s is a library and stands on %s, which is of the commands", name, dep)
			case slices.Contains(apart, name) && slices.Contains(apart, dep):
				t.Errorf("%s and %s know nothing of each other", name, dep)
			case name == "efa/wire":
				t.Errorf("efa/wire imports nothing of the project, and so not %s", dep)
			case within(name, "verbs") && strings.Contains(dep, "bpf"):
				t.Errorf("%s is without BPF, and so without %s", name, dep)
			}
		}
	}
}

func within(name, folder string) bool { return name == folder || strings.HasPrefix(name, folder+"/") }

// A package whose C files nobody could do without says so (internal/needs/cgo), and
// one that says so has some.
func TestCgoIsSaid(t *testing.T) {
	all := packages(t)
	for _, p := range publics(t) {
		uses := slices.ContainsFunc(append(slices.Clone(p.Deps), p.ImportPath), func(d string) bool {
			return all[d].name() != "" && len(all[d].CgoFiles) > 0
		})
		says := strings.Contains(needs(p), "cgo")
		if uses != says {
			t.Errorf("%s: has files with cgo: %v; says that it needs it: %v", p.name(), uses, says)
		}
	}
}
