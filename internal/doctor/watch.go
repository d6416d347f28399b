package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// Event is what happened to a finding between two rounds.
type Event string

const (
	Appeared Event = "appeared"
	Gone     Event = "gone"
	Changed  Event = "changed" // its verdict, or what is so
	Rose     Event = "rose"    // a counter of it
)

// Change is one.
type Change struct {
	Check, Subject string
	Event          Event
	From, To       *Verdict // nil: it was not there, it is there no more
	Detail         string   // what is so now; of a counter by how much it rose
}

// Round is one look of a watch.
type Round struct {
	Number  int // from 1
	Time    time.Time
	Report  *Report
	Changes []Change // against the round before; none in the first
}

// Watch makes rounds of reports; the zero value has seen none.
type Watch struct {
	last   *Report
	rounds int
}

// Next compares a report with the one before it. A finding that has a counter that
// rose becomes a Warn, if it is not worse already.
func (w *Watch) Next(r *Report, at time.Time) Round {
	w.rounds++
	round := Round{Number: w.rounds, Time: at, Report: r}
	if w.last != nil {
		round.Changes = compare(w.last, r)
	}
	w.last = r
	return round
}

type key struct {
	check, subject string
	number         int // a check may say several things of one subject
}

func keyed(r *Report) (all map[key]*Finding, order []key) {
	all = map[key]*Finding{}
	for _, c := range r.Checked {
		for i := range c.Findings {
			k := key{c.Check.Name, c.Findings[i].Subject, 0}
			for all[k] != nil {
				k.number++
			}
			all[k] = &c.Findings[i]
			order = append(order, k)
		}
	}
	return all, order
}

func compare(before, now *Report) (changes []Change) {
	old, was := keyed(before)
	found, order := keyed(now)
	for _, k := range was {
		if found[k] == nil {
			changes = append(changes, Change{k.check, k.subject, Gone, &old[k].Verdict, nil, old[k].Summary})
		}
	}
	for _, k := range order {
		f, o := found[k], old[k]
		if o == nil {
			changes = append(changes, Change{k.check, k.subject, Appeared, nil, &f.Verdict, f.Summary})
			continue
		}
		from, told := o.Verdict, false
		for _, name := range slices.Sorted(maps.Keys(f.Counters)) {
			if was, ok := o.Counters[name]; ok && f.Counters[name] > was {
				told = told || f.Verdict <= Warn // the change of verdict too
				f.Verdict = max(f.Verdict, Warn)
				changes = append(changes, Change{k.check, k.subject, Rose, &from, &f.Verdict,
					fmt.Sprintf("%s rose by %d to %d", name, f.Counters[name]-was, f.Counters[name])})
			}
		}
		if f.Verdict != from && !told || f.Summary != o.Summary {
			changes = append(changes, Change{k.check, k.subject, Changed, &from, &f.Verdict, f.Summary})
		}
	}
	return changes
}

// WriteJSON prints the round as one line, schema Schema.
func (r Round) WriteJSON(w io.Writer, exit int) error {
	d := r.Report.json(exit)
	d.Round, d.Time, d.Changes = r.Number, &r.Time, []changeJSON{}
	for _, c := range r.Changes {
		d.Changes = append(d.Changes, changeJSON{c.Check, known(c.Subject), c.Event, c.From, c.To, c.Detail})
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(d)
}

// WriteText prints what changed, a line each; nothing where nothing has.
func (r Round) WriteText(w io.Writer, o TextOptions) error {
	t := NewText(w, o)
	for _, c := range r.Changes {
		verdict, to := OK, "gone"
		if c.To != nil {
			verdict, to = *c.To, c.To.String()
		}
		what := to
		if c.From != nil && c.From.String() != to {
			what = c.From.String() + " -> " + to
		}
		subject := c.Check
		if c.Subject != "" {
			subject += " " + clean(c.Subject)
		}
		head := r.Time.Local().Format("15:04:05") + "  "
		t.paragraph(head, t.paint(colours[verdict], what)+": "+subject+": "+clean(c.Detail))
	}
	return t.err
}
