package efa

import (
	"fmt"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
)

// object is the life of one object: what stands on it, and whether it is
// closed. Making and closing take its lock; posting and polling never do.
type object struct {
	mu      sync.Mutex
	label   atomic.Pointer[string] // begins with the kind, as "mr lkey 0x1f"
	parents []*object
	users   map[*object]struct{}
	closed  bool
}

// live counts open objects by kind.
var live struct {
	sync.Mutex
	n map[string]int
}

// Live gives how many objects of each kind ("device", "pd", "mr", "ah", "cq",
// "srd", "ud", "counter") are open in this process. Kinds with none are left out.
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

func (o *object) kind() string {
	kind, _, _ := strings.Cut(o.name(), " ")
	return kind
}

// attach makes o a user of its parents before the device is asked for it, so
// that no parent can be closed meanwhile. The label begins with the kind.
func (o *object) attach(op, label string, parents ...*object) error {
	o.label.Store(&label)
	for _, p := range parents {
		if err := p.hold(op, o); err != nil {
			o.detach(false)
			return err
		}
		o.parents = append(o.parents, p)
	}
	count(o.kind(), 1)
	return nil
}

func (o *object) hold(op string, user *object) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return &Error{Op: op, Object: o.name(), Err: ErrClosed}
	}
	if o.users == nil {
		o.users = make(map[*object]struct{})
	}
	o.users[user] = struct{}{}
	return nil
}

func (o *object) drop(user *object) {
	o.mu.Lock()
	delete(o.users, user)
	o.mu.Unlock()
}

// detach undoes attach: after a failed creation, and at the end of close.
func (o *object) detach(counted bool) {
	for _, p := range o.parents {
		p.drop(o)
	}
	o.parents = nil
	if counted {
		count(o.kind(), -1)
	}
}

// rename gives the object the name that is known only once it exists.
func (o *object) rename(format string, args ...any) {
	label := o.kind() + " " + fmt.Sprintf(format, args...)
	o.label.Store(&label)
}

// name is how errors call the object. It takes no lock: a parent asks for it
// under its own.
func (o *object) name() string {
	if p := o.label.Load(); p != nil {
		return *p
	}
	return ""
}

// close destroys the object once. It refuses while others stand on it and names
// them; when the device refuses, the object stays open.
func (o *object) close(op string, destroy func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	if len(o.users) > 0 {
		return &Error{Op: op, Object: o.name(), Err: ErrBusy, Detail: "still used by " + labels(o.users) + "; close first what stands on it"}
	}
	if err := destroy(); err != nil {
		return err
	}
	o.closed = true
	o.detach(true)
	return nil
}

func labels(set map[*object]struct{}) string {
	const most = 5
	list := make([]string, 0, len(set))
	for u := range set {
		list = append(list, u.name())
	}
	sort.Strings(list)
	if more := len(list) - most; more > 0 {
		list = append(list[:most], fmt.Sprintf("%d more", more))
	}
	return strings.Join(list, ", ")
}
