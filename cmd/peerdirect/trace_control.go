package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/peerdirect/peerdirect/internal/tracereport"
)

// serve answers scrapes until the context ends.
func (t *traceRun) serve(ctx context.Context, l net.Listener, began time.Time) error {
	fmt.Fprintf(t.stderr, "peerdirect: metrics at http://%s/metrics\n", l.Addr())
	return tracereport.Serve(ctx, l, tracereport.NewCollector(began, t.series, func() ([]tracereport.Metric, error) {
		look, err := t.lookNow(nil)
		if err != nil {
			return nil, err
		}
		return look.Metrics(), nil
	}))
}

// toggle detaches everything, or attaches again.
func (t *traceRun) toggle() error {
	if t.attached {
		return t.detach("detached; " + t.frees + "; SIGUSR1 again attaches")
	}
	if err := t.session.Attach(); err != nil {
		// What is missing may come: a module that is being loaded.
		t.notice("failed", fmt.Sprintf("cannot attach: %v; SIGUSR1 tries again", err))
		return t.session.Detach()
	}
	t.mu.Lock()
	t.attached, t.since, t.overhead = true, time.Now(), nil
	t.mu.Unlock()
	t.notice("attached", "attached again"+t.forgets)
	return nil
}

// renew attaches to modules that were loaded, and forgets those that are gone.
func (t *traceRun) renew() error {
	if !t.attached || !t.session.Stale() {
		return nil
	}
	if err := t.session.Attach(); err != nil {
		return t.detach(fmt.Sprintf("modules have gone: detached: %v; SIGUSR1 attaches again", err))
	}
	t.mu.Lock()
	t.overhead = nil
	t.mu.Unlock()
	t.notice("renewed", "modules have come or gone: attached to what is there now")
	return nil
}

func (t *traceRun) detach(why string) error {
	err := t.session.Detach()
	t.mu.Lock()
	t.traced += time.Since(t.since)
	t.attached = false
	t.mu.Unlock()
	t.notice("detached", why)
	return err
}
