package docs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/tracereport"
	"github.com/peerdirect/peerdirect/transfer/mrcache"
)

// metricRows are the rows of docs/metrics.md: what trace serves, and what a registration
// cache writes.
func metricRows(t *testing.T) []string {
	tracing := tracereport.Tracing{Attached: true, Overhead: &ebpfprobes.Overhead{}, Budget: 0.01}
	var rows []string
	row := func(name, kind string, labels []string, of, help string) {
		if len(labels) == 0 {
			labels = []string{"none"}
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s | %s |", name, kind, strings.Join(labels, ", "), of, help))
	}
	kinds := map[tracereport.MetricType]string{tracereport.Gauge: "gauge", tracereport.Counter: "counter", tracereport.Durations: "histogram"}
	seen := make(map[string]bool)
	for _, of := range []struct {
		name    string
		metrics []tracereport.Metric
	}{
		{"registrations", (&tracereport.Registrations{Tracing: tracing}).Metrics()},
		{"completions", (&tracereport.Completions{Tracing: tracing, Sampling: &ebpfprobes.Sampling{}}).Metrics()},
		{"leaks", (&tracereport.Leaks{Tracing: tracing}).Metrics()},
		{"connections", (&tracereport.Connections{Tracing: tracing}).Metrics()},
		{"errors", (&tracereport.Errors{Tracing: tracing}).Metrics()},
	} {
		for _, m := range of.metrics {
			if seen[m.Name] {
				continue
			}
			seen[m.Name] = true
			if strings.HasPrefix(m.Name, "peerdirect_trace_") {
				of.name = "all"
			}
			row(m.Name, kinds[m.Type], m.Labels, of.name, m.Help)
		}
	}
	return append(rows, cacheRows(t)...)
}

var (
	typeLine   = regexp.MustCompile(`(?m)^# HELP (\S+) (.*)\n# TYPE \S+ (\S+)$`)
	labelNames = regexp.MustCompile(`(\w+)="`)
)

// cacheRows are those of a registration cache, by what it writes.
func cacheRows(t *testing.T) []string {
	never := mrcache.RegistrarFunc(func(mrcache.Range, mrcache.Access) (mrcache.Registration, error) { return nil, errors.ErrUnsupported })
	c, err := mrcache.New(mrcache.Options{Rails: []mrcache.Rail{{Name: "efa_0", Registrar: never}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	var b bytes.Buffer
	if err := c.WritePrometheus(&b); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, m := range typeLine.FindAllStringSubmatch(b.String(), -1) {
		labels := []string{"rail"}
		switch { // counts by a label have no sample before the first
		case strings.HasSuffix(m[1], "_misses_total"):
			labels = append(labels, "reason")
		case strings.HasSuffix(m[1], "_invalidations_total"):
			labels = append(labels, "cause")
		}
		for line := range strings.Lines(b.String()) {
			if !strings.HasPrefix(line, m[1]+"{") {
				continue
			}
			for _, l := range labelNames.FindAllStringSubmatch(line, -1) {
				if !slices.Contains(labels, l[1]) {
					labels = append(labels, l[1])
				}
			}
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | cache | %s |", m[1], m[3], strings.Join(labels, ", "), m[2]))
	}
	return rows
}

// TestMetrics: docs/metrics.md has the metrics, types and labels of the code, and no
// others. With -update it is written.
func TestMetrics(t *testing.T) {
	inTable(t, "docs/metrics.md", "| metric | type | labels | of | |\n| --- | --- | --- | --- | --- |\n", metricRows(t))

	// None is served that the reports above do not give.
	text, err := fs.ReadFile(tree, "docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := fs.Glob(tree, "internal/tracereport/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`"(peerdirect_[a-z_]+)"`)
	for _, file := range files {
		source, err := fs.ReadFile(tree, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range name.FindAllSubmatch(source, -1) {
			if !strings.HasSuffix(file, "_test.go") && !bytes.Contains(text, []byte("| `"+string(m[1])+"` |")) {
				t.Errorf("docs/metrics.md does not have %s of %s", m[1], file)
			}
		}
	}
	// The values of labels that are words of ours.
	for _, words := range []string{
		values(ebpfprobes.Register, ebpfprobes.Deregister), values(ebpfprobes.KindUnknown, ebpfprobes.DEVX),
		values(ebpfprobes.Uverbs, ebpfprobes.UnknownPhase), values(ebpfprobes.Woken, ebpfprobes.Marked),
		values(ebpfprobes.Steady, ebpfprobes.Abandoned), values(ebpfprobes.Created, ebpfprobes.Destroyed),
	} {
		if !bytes.Contains(text, []byte("| "+words+" |")) {
			t.Errorf("docs/metrics.md does not have the values %s", words)
		}
	}
}

// values joins the words from a first to a last one.
func values[T interface {
	~uint8
	String() string
}](first, last T) string {
	var words []string
	for v := first; v <= last; v++ {
		words = append(words, v.String())
	}
	return strings.Join(words, ", ")
}

// inTable holds the rows of a document's table against those of the code, or with
// -update writes them below the table's head.
func inTable(t *testing.T, name, head string, want []string) {
	t.Helper()
	text, err := fs.ReadFile(tree, name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), head)
	if !ok {
		t.Fatalf("%s has no table of\n%s", name, head)
	}
	table, after, _ := strings.Cut(rest, "\n\n")
	if *update {
		if err := os.WriteFile("../../"+name, []byte(before+head+strings.Join(want, "\n")+"\n\n"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got := strings.Split(strings.TrimSuffix(table, "\n"), "\n")
	for _, row := range want {
		if !slices.Contains(got, row) {
			t.Errorf("%s lacks the row (go test ./internal/docs -update)\n%s", name, row)
		}
	}
	for _, row := range got {
		if !slices.Contains(want, row) {
			t.Errorf("%s has a row that the code does not have (go test ./internal/docs -update)\n%s", name, row)
		}
	}
}
