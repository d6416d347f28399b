package verbs

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// thing is an object of no library.
type thing struct {
	object
	destroyed atomic.Int32
}

func newThing(t *testing.T, name string, parents ...*thing) *thing {
	t.Helper()
	o := new(thing)
	var list []*object
	for _, p := range parents {
		list = append(list, &p.object)
	}
	if err := o.attach("make", name, list...); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *thing) Close() error {
	return o.close("destroy", func() error {
		o.destroyed.Add(1)
		return nil
	})
}

func TestParentsCloseAfterTheirChildren(t *testing.T) {
	before := Live()["thing"]
	a, b := newThing(t, "thing a"), newThing(t, "thing b")
	c := newThing(t, "thing c", a, b)
	c.rename("number %d", 3)
	for _, p := range []*thing{a, b} {
		err := p.Close()
		if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "thing number 3") {
			t.Errorf("closing a parent: %v", err)
		}
	}
	if n := Live()["thing"] - before; n != 3 {
		t.Errorf("%d things are counted", n)
	}
	for range 2 {
		for _, o := range []*thing{c, b, a} {
			if err := o.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	for _, o := range []*thing{a, b, c} {
		if n := o.destroyed.Load(); n != 1 {
			t.Errorf("%s was destroyed %d times", o.name(), n)
		}
	}
	if n := Live()["thing"] - before; n != 0 {
		t.Errorf("%d things are left", n)
	}
}

func TestNothingIsMadeOnAClosedParent(t *testing.T) {
	a, b := newThing(t, "thing a"), newThing(t, "thing b")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	c := new(thing)
	err := c.attach("make", "thing c", &a.object, &b.object)
	if !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "thing b") {
		t.Errorf("got %v", err)
	}
	// The failed one does not hold the parent that was open.
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

func TestAnObjectThatIsNotDestroyedStaysOpen(t *testing.T) {
	a := newThing(t, "thing a")
	refusal := failed("destroy", a.name(), syscall.EBUSY, "")
	if err := a.close("destroy", func() error { return refusal }); !errors.Is(err, ErrBusy) {
		t.Errorf("got %v", err)
	}
	b := newThing(t, "thing b", a)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := a.Close(); err != nil || a.destroyed.Load() != 1 {
		t.Errorf("the second try: %v", err)
	}
}

func TestManyUsersAreNotAllListed(t *testing.T) {
	a := newThing(t, "thing a")
	var users []*thing
	for range 12 {
		users = append(users, newThing(t, "thing u", a))
	}
	if err := a.Close(); err == nil || !strings.Contains(err.Error(), "7 more") {
		t.Errorf("got %v", err)
	}
	for _, u := range users {
		u.Close()
	}
	a.Close()
}

func TestClosingAndMakingAtOnceIsOneOrTheOther(t *testing.T) {
	for range 200 {
		a := newThing(t, "thing a")
		var made, closed atomic.Bool
		var child thing
		var wg sync.WaitGroup
		wg.Go(func() { made.Store(child.attach("make", "thing c", &a.object) == nil) })
		wg.Go(func() { closed.Store(a.Close() == nil) })
		wg.Go(func() { a.Close() })
		wg.Wait()
		if made.Load() {
			if a.destroyed.Load() != 0 {
				t.Fatal("a parent was destroyed under its child")
			}
			child.Close()
			a.Close()
		} else if a.destroyed.Load() != 1 {
			t.Fatalf("destroyed %d times", a.destroyed.Load())
		}
	}
}

func TestWhatIsDroppedIsReportedAndBlocksItsParent(t *testing.T) {
	lost := make(chan string, 10)
	ReportLeaks(func(text string) { lost <- text })
	defer ReportLeaks(nil)
	parent := newThing(t, "thing parent")
	kept := newThing(t, "thing kept", parent)
	func() { newThing(t, "thing dropped", parent) }()
	func() {
		if err := newThing(t, "thing closed", parent).Close(); err != nil {
			t.Error(err)
		}
	}()
	var text string
	for range 100 {
		runtime.GC()
		select {
		case text = <-lost:
		case <-time.After(20 * time.Millisecond):
			continue
		}
		break
	}
	if !strings.HasPrefix(text, "thing dropped was dropped without Close") || !strings.Contains(text, "object_test.go") {
		t.Errorf("the report says %q", text)
	}
	err := parent.Close()
	if err == nil || !strings.Contains(err.Error(), "thing dropped (dropped without Close)") || !strings.Contains(err.Error(), "thing kept") {
		t.Errorf("closing the parent: %v", err)
	}
	runtime.GC()
	select {
	case text := <-lost:
		t.Errorf("another report: %s", text)
	case <-time.After(50 * time.Millisecond):
	}
	runtime.KeepAlive(kept)
	kept.Close()
	objects.Count("thing", -2) // the dropped one, and its parent that it keeps open
}
