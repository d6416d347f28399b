package verbs

import "github.com/peerdirect/peerdirect/internal/life"

var objects = life.In("verbs")

// Live gives how many objects of each kind ("device", "pd", "mr", "cq", "qp",
// …) are open in this process. Kinds with none are left out.
func Live() map[string]int { return objects.Live() }

// ReportLeaks has report called for each object made from now on that the
// program loses without closing it, with the object's name and where it was
// made. The call comes from the runtime's clean-up goroutine, some time after
// the last reference is gone; nothing is closed by it, because the order in
// which objects are found lost is not the order in which they can be closed.
// A nil report ends the watch for new objects.
func ReportLeaks(report func(text string)) { objects.ReportLeaks(report) }

// object is the life of one object of the library. Creating and closing take its
// lock; posting and polling never do.
type object struct{ life life.Object }

func (o *object) name() string { return o.life.Name() }

// rename gives the object the name that is known only once it exists.
func (o *object) rename(format string, args ...any) { o.life.Rename(format, args...) }

// attach makes o a user of its parents before the library is asked for it. The
// name begins with the kind.
func (o *object) attach(verb, name string, parents ...*object) error {
	list := make([]*life.Object, len(parents))
	for i, p := range parents {
		list[i] = &p.life
	}
	if closed := o.life.Attach(objects, name, list...); closed != nil {
		return &Error{Verb: verb, Object: closed.Name(), Err: ErrClosed}
	}
	return nil
}

// detach undoes attach: after a failed creation.
func (o *object) detach() { o.life.Detach() }

// hold makes user one of o's after it was attached; it fails where o is closed.
func (o *object) hold(verb string, user *object) error {
	if !o.life.Hold(&user.life) {
		return &Error{Verb: verb, Object: o.name(), Err: ErrClosed}
	}
	return nil
}

func (o *object) drop(user *object) { o.life.Drop(&user.life) }

// close destroys the object once. It refuses while others stand on it and
// names them; when the library refuses, the object stays open.
func (o *object) close(verb string, destroy func() error) error {
	users, err := o.life.Close(destroy)
	if users != "" {
		return &Error{Verb: verb, Object: o.name(), Err: ErrBusy, Detail: "still used by " + users + "; close first what stands on it"}
	}
	return err
}
