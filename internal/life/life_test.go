package life

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
)

func made(t *testing.T, p *Package, label string, parents ...*Object) *Object {
	t.Helper()
	o := new(Object)
	if closed := o.Attach(p, label, parents...); closed != nil {
		t.Fatalf("%s is closed", closed.Name())
	}
	return o
}

func done() error { return nil }

func closes(t *testing.T, o *Object, refusal string) {
	t.Helper()
	if users, err := o.Close(done); err != nil || (users == "") != (refusal == "") || !strings.Contains(users, refusal) {
		t.Errorf("closing %s: used by %q, %v; want %q", o.Name(), users, err, refusal)
	}
}

// TestRest: an object keeps open what it stands on, also after it was set on another.
func TestRest(t *testing.T) {
	p := In("test")
	a, b, c := made(t, p, "thing a"), made(t, p, "thing b"), made(t, p, "thing c")
	o := made(t, p, "user o", a)
	for _, q := range []*Object{b, c} {
		if !q.Hold(o) {
			t.Fatal("it is closed")
		}
	}
	o.Lock()
	o.Rest(b, a)
	o.Rest(c, nil)
	o.Unlock()
	closes(t, a, "")
	closes(t, b, "user o")
	closes(t, c, "user o")
	if n := p.Live(); n["thing"] != 2 || n["user"] != 1 {
		t.Errorf("live: %v", n)
	}
	if _, err := o.Close(func() error { return errors.New("refused") }); err == nil {
		t.Error("it was not destroyed, and is closed")
	}
	for _, q := range []*Object{o, b, c} {
		closes(t, q, "")
	}
	if a.Hold(o) {
		t.Error("a closed object has a user")
	}
	if n := p.Live(); len(n) > 0 {
		t.Errorf("live: %v", n)
	}
}

// TestAdopt: what was lost blocks its parents until something takes its place.
func TestAdopt(t *testing.T) {
	p := In("test")
	lost := make(chan string, 1)
	p.ReportLeaks(func(text string) { lost <- text })
	parent := made(t, p, "thing parent")
	tag := func() *Tag { return made(t, p, "user lost", parent).Tag() }()
	var text string
	for deadline := time.Now().Add(time.Minute); text == "" && time.Now().Before(deadline); {
		runtime.GC()
		select {
		case text = <-lost:
		case <-time.After(10 * time.Millisecond):
		}
	}
	if !strings.HasPrefix(text, "user lost was dropped without Close; it was made at ") || !strings.Contains(text, "life_test.go:") {
		t.Errorf("the report: %q", text)
	}
	closes(t, parent, "user lost (dropped without Close)")
	heir := new(Object)
	heir.Adopt(p, tag, parent)
	closes(t, heir, "")
	closes(t, parent, "")
}
