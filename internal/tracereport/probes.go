package tracereport

import (
	"encoding/json"
	"io"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// WriteProbesText prints a table of what would be attached.
func WriteProbesText(w io.Writer, probes []ebpfprobes.Probe, width int) error {
	t := table{head: []string{"PURPOSE", "ROLE", "FUNCTION", "MODULE", "USABLE", "BY", "NEEDED", "WHY NOT"}}
	for _, p := range probes {
		needed, module, by := "-", "-", "-"
		if p.Needed {
			needed = "yes"
		}
		if p.Module != "" {
			module = Name(p.Module)
		}
		if p.By != "" {
			by = string(p.By)
		}
		t.add(p.Purpose, p.Role, Name(p.Function), module, p.Usable.String(), by, needed, p.Why)
	}
	return t.write(w, width)
}

// WriteProbes prints one document with what would be attached.
func WriteProbes(w io.Writer, probes []ebpfprobes.Probe) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(struct {
		Schema string      `json:"schema"`
		Probes []probeJSON `json:"probes"`
	}{ProbesSchema, probesJSON(probes)})
}
