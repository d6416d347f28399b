package life

import (
	"fmt"
	"runtime"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
)

// Object is the life of one object: what it stands on, what stands on it, and
// whether it is closed. Making and closing take its lock, and so may its package to
// keep it open meanwhile; posting and polling never do.
type Object struct {
	sync.Mutex
	p       *Package
	tag     *Tag
	parents []*Object
	users   map[*Tag]struct{}
	closed  bool
	cleanup runtime.Cleanup
}

// Tag is what parents know of an object. It does not lead back to the object, so an
// object that the program dropped is collected, and reported, even while its parents
// live.
type Tag struct {
	label atomic.Pointer[string] // as "mr lkey 0x1f"; begins with the kind
	lost  atomic.Bool            // dropped without Close
}

func (t *Tag) String() string {
	s := *t.label.Load()
	if t.lost.Load() {
		s += " (dropped without Close)"
	}
	return s
}

// lose notes that the object was dropped, and gives its name.
func (t *Tag) lose() string {
	t.lost.Store(true)
	return *t.label.Load()
}

// Attach makes o a user of its parents before it is made, so that no parent can be
// closed meanwhile. The label begins with the kind. It gives the parent that is
// closed, if one is.
func (o *Object) Attach(p *Package, label string, parents ...*Object) (closed *Object) {
	o.p, o.tag = p, new(Tag)
	o.tag.label.Store(&label)
	for i, parent := range parents {
		if !parent.Hold(o) {
			for _, q := range parents[:i] {
				q.Drop(o)
			}
			return parent
		}
	}
	o.parents = parents
	o.cleanup = watch(p, o, o.tag.lose)
	p.Count(o.kind(), 1)
	return nil
}

// Adopt has o take the place of an object that was lost, by its Tag.
func (o *Object) Adopt(p *Package, lost *Tag, parents ...*Object) {
	o.p, o.tag, o.parents = p, lost, parents
}

// Tag is what the parents know of the object.
func (o *Object) Tag() *Tag { return o.tag }

// Detach undoes Attach: after making the object failed, and at the end of Close.
func (o *Object) Detach() {
	for _, parent := range o.parents {
		parent.Drop(o)
	}
	o.cleanup.Stop()
	o.p.Count(o.kind(), -1)
}

// Hold notes a user; false where o is closed.
func (o *Object) Hold(user *Object) bool {
	o.Lock()
	defer o.Unlock()
	if o.closed {
		return false
	}
	if o.users == nil {
		o.users = make(map[*Tag]struct{})
	}
	o.users[user.tag] = struct{}{}
	return true
}

// Drop takes Hold back.
func (o *Object) Drop(user *Object) {
	o.Lock()
	delete(o.users, user.tag)
	o.Unlock()
}

// Rest makes a parent, which holds o already, another one of those that Detach drops
// o from; a parent that is given instead is dropped now. The lock is held.
func (o *Object) Rest(on, instead *Object) {
	// A fresh slice: who made o may have kept the other.
	parents := make([]*Object, 0, len(o.parents)+1)
	for _, parent := range o.parents {
		if parent != instead {
			parents = append(parents, parent)
		}
	}
	o.parents = append(parents, on)
	if instead != nil {
		instead.Drop(o)
	}
}

// Name is how errors call the object. It takes no lock: a parent asks for it under
// its own.
func (o *Object) Name() string {
	if o.tag == nil {
		return ""
	}
	return *o.tag.label.Load()
}

func (o *Object) kind() string {
	kind, _, _ := strings.Cut(o.Name(), " ")
	return kind
}

// Rename gives the object the name that is known only once it exists.
func (o *Object) Rename(format string, args ...any) {
	label := o.kind() + " " + fmt.Sprintf(format, args...)
	o.tag.label.Store(&label)
}

// Closed tells whether the object is. The lock is held.
func (o *Object) Closed() bool { return o.closed }

// Close destroys the object once. While others stand on it, it only names them;
// when destroy fails, the object stays open.
func (o *Object) Close(destroy func() error) (users string, err error) {
	o.Lock()
	defer o.Unlock()
	switch {
	case o.closed:
		return "", nil
	case len(o.users) > 0:
		return names(o.users), nil
	}
	if err := destroy(); err != nil {
		return "", err
	}
	o.closed = true
	o.Detach()
	return "", nil
}

func names(set map[*Tag]struct{}) string {
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
