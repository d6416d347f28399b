package doctor

import (
	"encoding/json"
	"io"
	"time"
)

// Schema names the form of what WriteJSON and Round.WriteJSON write.
const Schema = "peerdirect.doctor/1"

type reportJSON struct {
	Schema   string         `json:"schema"`
	Source   string         `json:"source"`
	Live     bool           `json:"live"`
	Kernel   *string        `json:"kernel"`
	Round    int            `json:"round,omitempty"` // of a watch, from 1
	Time     *time.Time     `json:"time,omitempty"`  // of a watch
	Worst    Verdict        `json:"worst"`
	Exit     int            `json:"exit"`
	Counts   map[string]int `json:"counts"`
	Findings []findingJSON  `json:"findings"`
	Changes  []changeJSON   `json:"changes,omitzero"` // of a watch; [] where nothing changed
}

type findingJSON struct {
	Check    string            `json:"check"`
	Group    string            `json:"group"`
	Subject  *string           `json:"subject"` // null is the machine
	Verdict  Verdict           `json:"verdict"`
	Cause    *Cause            `json:"cause"` // null but of a fail
	Summary  string            `json:"summary"`
	Evidence []string          `json:"evidence"`
	Remedy   *string           `json:"remedy"`
	Commands []string          `json:"commands"`
	Counters map[string]uint64 `json:"counters,omitempty"`
}

type changeJSON struct {
	Check   string   `json:"check"`
	Subject *string  `json:"subject"`
	Event   Event    `json:"event"`
	From    *Verdict `json:"from"` // null if it was not there
	To      *Verdict `json:"to"`   // null if it is there no more
	Detail  string   `json:"detail"`
}

// WriteJSON prints a report as one document. exit is the exit code that goes with it.
func WriteJSON(w io.Writer, r *Report, exit int) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r.json(exit))
}

// WriteListJSON prints the checks there are as one document.
func WriteListJSON(w io.Writer, checks []Check) error {
	type check struct {
		Name  string `json:"name"`
		Group string `json:"group"`
		About string `json:"about"`
		Live  bool   `json:"live"` // only of a running machine
	}
	list := []check{}
	for _, c := range checks {
		list = append(list, check{c.Name, c.Group, c.About, c.Live})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(struct {
		Schema string  `json:"schema"`
		Checks []check `json:"checks"`
	}{Schema, list})
}

func (r *Report) json(exit int) reportJSON {
	worst, _ := r.Worst()
	d := reportJSON{Schema: Schema, Source: r.Source, Live: r.Live, Kernel: known(r.Kernel), Worst: worst, Exit: exit,
		Counts: map[string]int{}, Findings: []findingJSON{}}
	for v, n := range r.Counts() {
		d.Counts[Verdict(v).String()] = n
	}
	for _, c := range r.Checked {
		for _, f := range c.Findings {
			j := findingJSON{Check: c.Check.Name, Group: c.Check.Group, Subject: known(f.Subject), Verdict: f.Verdict, Summary: f.Summary,
				Evidence: list(f.Evidence), Remedy: known(f.Remedy), Commands: list(f.Commands), Counters: f.Counters}
			if f.Verdict == Fail {
				j.Cause = &f.Cause
			}
			d.Findings = append(d.Findings, j)
		}
	}
	return d
}

func known(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// list spells none as [], not null.
func list(s []string) []string { return append([]string{}, s...) }
