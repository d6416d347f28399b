package report

import (
	"io"
	"slices"
	"strconv"

	"github.com/peerdirect/peerdirect/pci"
)

// Tree prints the machine as a tree in the manner of lspci -t: NUMA nodes, root
// complexes, bridges and switches, devices. Bridges that lead to one thing share its
// line, a switch with its ports is one line. A device's line has its address, name,
// model and link ("of" what it could if that is more), behind "→" the rails of an
// accelerator with the class of the farthest, and what else is known. Its errors are
// w's.
func Tree(w io.Writer, t *pci.Topology, o Options) error {
	if t == nil {
		return errNoTopology
	}
	p := &treePrinter{page: newPage(t, o.Width), build: newTreeBuilder(t, o)}
	for _, s := range []string{machine(&t.Platform), p.census()} {
		if s != "" {
			p.line(s)
		}
	}
	p.groups(p.build.groups())
	p.layout()
	return p.flush(w)
}

// longestChain bounds the bridges of a line; real ones have one or two.
const longestChain = 3

// row is a line of the tree.
type row struct {
	branch     string // lines and addresses; of what is no device its text too
	device     bool
	name, what string
	link       string
	rails      []string // of an accelerator
	class      string   // of the farthest
	notes      []string
}

// treePrinter makes lines of what the builder chose.
type treePrinter struct {
	*page
	build *treeBuilder
	rows  []row
	node  *pci.Node // of the lines being made
}

func (p *treePrinter) text(s string) { p.rows = append(p.rows, row{branch: s}) }

// groups makes one line of neighbouring nodes that hold memory only, of which some
// machines have dozens.
func (p *treePrinter) groups(all []*nodeGroup) {
	for i := 0; i < len(all); i++ {
		var numbers pci.CPUs // for how it is spelled
		for _, g := range all[i:] {
			if !g.memoryOnly() {
				break
			}
			numbers = append(numbers, g.node.Number)
		}
		if len(numbers) < 2 {
			p.group(all[i])
			continue
		}
		p.text("NUMA nodes " + numbers.String() + ": no processors; no PCI device")
		i += len(numbers) - 1
	}
}

func (g *nodeGroup) memoryOnly() bool {
	return g.node != nil && g.node.CPUs != nil && len(g.node.CPUs) == 0 && len(g.tops) == 0 && g.bare == 0
}

func (p *treePrinter) group(g *nodeGroup) {
	p.node = g.node
	p.text(nodeText(g))
	for i, k := range g.tops {
		name := "below no root complex"
		if k.root != nil {
			name = cut(safe(k.root.Name), longestName)
		}
		last := i == len(g.tops)-1 && g.bare == 0
		p.text(corner("", last) + name)
		p.items(stem("", last), k.items, k.hidden)
	}
	if g.bare > 0 {
		s := plural(g.bare, "root complex", "root complexes")
		if g.rest != (hidden{}) {
			s += " with " + g.rest.String()
		} else {
			s += " with nothing below"
		}
		p.text(corner("", true) + s)
	}
}

// corner begins a branch; stem leads past it to the next.
func corner(prefix string, last bool) string {
	if last {
		return prefix + `\-`
	}
	return prefix + "+-"
}

func stem(prefix string, last bool) string {
	if last {
		return prefix + "  "
	}
	return prefix + "| "
}

func (p *treePrinter) items(prefix string, items []*item, rest hidden) {
	more := rest != hidden{}
	for i, it := range items {
		last := i == len(items)-1 && !more
		p.item(corner(prefix, last), it)
		p.items(stem(prefix, last), it.below, it.hidden)
	}
	if more {
		p.text(corner(prefix, true) + rest.String())
	}
}

func (p *treePrinter) item(branch string, it *item) {
	for i, b := range it.chain {
		if skipped := len(it.chain) - longestChain; skipped > 0 && i > 0 && i <= skipped && !p.build.all {
			if i == 1 {
				branch += "…---"
			}
			continue
		}
		branch += p.address(b.Address) + "---"
	}
	d := it.d
	branch += p.address(d.Address)
	if len(it.below) > 0 || d.Kind == pci.Bridge {
		p.rows = append(p.rows, row{branch: branch + "  " + bridgeText(it), link: linkText(d.Link)})
		return
	}
	r := row{branch: branch, device: true, name: p.name(d), what: cut(model(d), longestName), link: linkText(d.Link), notes: p.notes(it)}
	if r.name == d.Address.String() {
		r.name = kindWord(d)
	}
	if pair := p.build.pairs[d]; pair != nil && len(p.build.rails) > 0 {
		r.rails = []string{"no rail"}
		if len(pair.Rails) > 0 {
			r.rails, r.class = nil, classWord(pair.Class)
		}
		for _, n := range pair.Rails {
			r.rails = append(r.rails, p.name(n))
		}
	}
	p.rows = append(p.rows, r)
}

func bridgeText(it *item) string {
	text := kindWord(it.d)
	if it.sw != nil {
		text = "switch"
		if n := len(it.sw.Downstream); n > 0 { // files of other tools leave them out
			text += ", " + plural(n, "port", "ports")
		}
	}
	if it.d.ProductName != "" {
		text += ", " + cut(model(it.d), longestName)
	}
	if it.beside != (hidden{}) {
		text += ", beside " + it.beside.String()
	}
	return text
}

// notes tell what else matters of a device.
func (p *treePrinter) notes(it *item) (notes []string) {
	d := it.d
	others := append(slices.Clone(d.NVMe), d.Net...)
	for _, r := range d.RDMA {
		others = append(others, r.Name)
	}
	for _, name := range others {
		if name = cut(safe(name), longestName); name != p.name(d) {
			notes = append(notes, name)
		}
	}
	if s := portsText(d); s != "" {
		notes = append(notes, s)
	}
	if d.PF != nil {
		notes = append(notes, "virtual function of "+p.name(d.PF))
	}
	if n := len(d.VFs); n > 0 && !p.build.all {
		notes = append(notes, plural(n, "virtual function", "virtual functions"))
	}
	if d.Node != nil && d.Node != p.node {
		notes = append(notes, "NUMA node "+strconv.Itoa(d.Node.Number))
	}
	if it.beside != (hidden{}) {
		notes = append(notes, "beside "+it.beside.String())
	}
	return notes
}
