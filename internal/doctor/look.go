package doctor

import (
	"context"
	"strings"
)

// Look has each check look at s, one after the other, and gives the report. Before a
// check runs began is told, after it each, which may end the look by an error. When
// ctx is done the look ends at once, with its error, even where a check waits for a
// file that the kernel does not give.
func Look(ctx context.Context, s *System, source string, checks []Check, began func(Check), each func(Checked) error) (*Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type step struct {
		check Check
		found *Checked // nil: it begins
	}
	steps := make(chan step)
	tell := func(st step) {
		select {
		case steps <- st:
		case <-ctx.Done():
		}
	}
	kernel := make(chan string, 1)
	go func() {
		defer close(steps)
		kernel <- s.Kernel()
		for _, c := range checks {
			tell(step{check: c})
			Run(ctx, s, []Check{c}, func(c Check, found []Finding) { tell(step{c, &Checked{c, found}}) })
		}
	}()
	r := &Report{Source: source, Live: s.Live}
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case st, more := <-steps:
			switch {
			case !more && ctx.Err() != nil:
				return nil, ctx.Err()
			case !more:
				r.Kernel = <-kernel
				return r, nil
			case st.found == nil:
				began(st.check)
			default:
				r.Checked = append(r.Checked, *st.found)
				if err := each(*st.found); err != nil {
					return nil, err
				}
			}
		}
	}
}

// Kernel is the release of the machine's kernel; "" is unknown.
func (s *System) Kernel() string {
	if text, err := s.text("proc/sys/kernel/osrelease"); err == nil {
		return text
	}
	text, _ := s.text("proc/version")
	release, _ := strings.CutPrefix(text, "Linux version ")
	release, _, _ = strings.Cut(release, " ")
	return release
}
