package verbs

import (
	"fmt"
	"runtime"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
)

// object is the life of one object of the library: what it stands on, what
// stands on it, and whether it is closed. Creating and closing take its lock;
// posting and polling never do.
type object struct {
	mu      sync.Mutex
	tag     *tag
	parents []*object
	users   map[*tag]struct{}
	closed  bool
	cleanup runtime.Cleanup
}

// tag is what parents know of an object. It does not lead back to the object,
// so an object that the program dropped is collected, and reported, even while
// its parents live.
type tag struct {
	label atomic.Pointer[string] // as "mr lkey 0x1f"; begins with the kind
	made  string                 // where, if leaks are reported
	lost  atomic.Bool            // dropped without Close
}

func (t *tag) String() string {
	s := *t.label.Load()
	if t.lost.Load() {
		s += " (dropped without Close)"
	}
	return s
}

// live counts open objects by their kind, for tests and for leak reports.
var live struct {
	sync.Mutex
	n map[string]int
}

// Live gives how many objects of each kind ("device", "pd", "mr", "cq", "qp",
// …) are open in this process. Kinds with none are left out.
func Live() map[string]int {
	live.Lock()
	defer live.Unlock()
	out := make(map[string]int, len(live.n))
	for k, n := range live.n {
		if n != 0 {
			out[k] = n
		}
	}
	return out
}

func count(kind string, d int) {
	live.Lock()
	if live.n == nil {
		live.n = make(map[string]int)
	}
	live.n[kind] += d
	live.Unlock()
}

// name is how errors call the object.
func (o *object) name() string {
	if o.tag == nil {
		return ""
	}
	return *o.tag.label.Load()
}

func (o *object) kind() string {
	kind, _, _ := strings.Cut(o.name(), " ")
	return kind
}

// attach makes o a user of its parents before the library is asked for it, so
// that no parent can be closed meanwhile. The name begins with the kind.
func (o *object) attach(verb, name string, parents ...*object) error {
	o.tag = new(tag)
	o.tag.label.Store(&name)
	for i, p := range parents {
		if err := p.hold(verb, o.tag); err != nil {
			for _, q := range parents[:i] {
				q.drop(o.tag)
			}
			return err
		}
	}
	o.parents = parents
	o.watch()
	count(o.kind(), 1)
	return nil
}

// hold notes a user; it fails where the object is closed.
func (o *object) hold(verb string, user *tag) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return &Error{Verb: verb, Object: o.name(), Err: ErrClosed}
	}
	if o.users == nil {
		o.users = make(map[*tag]struct{})
	}
	o.users[user] = struct{}{}
	return nil
}

func (o *object) drop(user *tag) {
	o.mu.Lock()
	delete(o.users, user)
	o.mu.Unlock()
}

// rename gives the object the name that is known only once it exists.
func (o *object) rename(format string, args ...any) {
	s := o.kind() + " " + fmt.Sprintf(format, args...)
	o.tag.label.Store(&s)
}

// detach undoes attach: after a failed creation, and at the end of close.
func (o *object) detach() {
	for _, p := range o.parents {
		p.drop(o.tag)
	}
	o.cleanup.Stop()
	count(o.kind(), -1)
}

// close destroys the object once. It refuses while others stand on it and
// names them; when the library refuses, the object stays open.
func (o *object) close(verb string, destroy func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	if len(o.users) > 0 {
		return &Error{Verb: verb, Object: o.name(), Err: ErrBusy, Detail: "still used by " + names(o.users) + "; close first what stands on it"}
	}
	if err := destroy(); err != nil {
		return err
	}
	o.closed = true
	o.detach()
	return nil
}

func names(set map[*tag]struct{}) string {
	const most = 5
	list := make([]string, 0, len(set))
	for t := range set {
		list = append(list, t.String())
	}
	sort.Strings(list)
	if more := len(list) - most; more > 0 {
		list = append(list[:most], fmt.Sprintf("%d more", more))
	}
	return strings.Join(list, ", ")
}
