package verbs

import (
	"fmt"
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
	label   atomic.Pointer[string] // as "mr lkey 0x1f"; begins with the kind
	parents []*object
	users   map[*object]struct{}
	closed  bool
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
	if s := o.label.Load(); s != nil {
		return *s
	}
	return ""
}

func (o *object) kind() string {
	kind, _, _ := strings.Cut(o.name(), " ")
	return kind
}

// attach makes o a user of its parents before the library is asked for it, so
// that no parent can be closed meanwhile. The name begins with the kind.
func (o *object) attach(verb, name string, parents ...*object) error {
	o.label.Store(&name)
	for i, p := range parents {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			for _, q := range parents[:i] {
				q.drop(o)
			}
			return &Error{Verb: verb, Object: p.name(), Err: ErrClosed}
		}
		if p.users == nil {
			p.users = make(map[*object]struct{})
		}
		p.users[o] = struct{}{}
		p.mu.Unlock()
	}
	o.parents = parents
	count(o.kind(), 1)
	return nil
}

// rename gives the object the name that is known only once it exists.
func (o *object) rename(format string, args ...any) {
	s := o.kind() + " " + fmt.Sprintf(format, args...)
	o.label.Store(&s)
}

func (o *object) drop(user *object) {
	o.mu.Lock()
	delete(o.users, user)
	o.mu.Unlock()
}

// detach undoes attach: after a failed creation, and at the end of close.
func (o *object) detach() {
	for _, p := range o.parents {
		p.drop(o)
	}
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

func names(set map[*object]struct{}) string {
	const most = 5
	list := make([]string, 0, len(set))
	for o := range set {
		list = append(list, o.name())
	}
	sort.Strings(list)
	if more := len(list) - most; more > 0 {
		list = append(list[:most], fmt.Sprintf("%d more", more))
	}
	return strings.Join(list, ", ")
}
