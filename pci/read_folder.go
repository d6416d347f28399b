package pci

import (
	"io"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

// folder is one that a root has opened: what is in it is had faster than by its
// path from the root.
type folder interface {
	into
	fs.ReadLinkFS
	fs.ReadDirFS
	io.Closer
	// At opens a file to read some of it.
	At(name string) (io.ReaderAt, io.Closer, error)
}

// enter makes a function's folder the one whose files are read next, if the root
// can open folders.
func (r *reader) enter(dir string) {
	r.leave()
	opener, ok := r.root.(fs.SubFS)
	if !ok {
		return
	}
	sub, err := opener.Sub(dir)
	if err != nil {
		return // whatever is read of it says why
	}
	if f, ok := sub.(folder); ok {
		r.folder, r.inside = f, dir+"/"
	}
}

func (r *reader) leave() {
	if r.folder != nil {
		r.folder.Close()
		r.folder = nil
	}
}

// below gives the name of a file in the folder that was entered.
func (r *reader) below(name string) (string, bool) {
	if r.folder == nil {
		return "", false
	}
	return strings.CutPrefix(name, r.inside)
}

// each calls work for every function, in its folder. It changes nothing but its
// function.
func (r *reader) each(work func(r *reader, d *Device, dir string)) {
	all := r.t.Devices
	r.share(len(all), func(r *reader, i int) {
		dir := r.dirs[all[i]]
		r.enter(dir)
		work(r, all[i], dir)
		r.leave()
	})
}

// share calls work for every number below n. Where the root can open folders several
// readers share the work. The errors are in order all the same.
func (r *reader) share(n int, work func(r *reader, i int)) {
	const few = 16 // that a reader takes at a time
	parts := (n + few - 1) / few
	readers := min(runtime.GOMAXPROCS(0), (parts+1)/2)
	if !r.folders() {
		readers = 1
	}
	failed := make([]failures, parts)
	var next atomic.Int32
	take := func() {
		h := *r
		h.buf = make([]byte, len(r.buf))
		for part := int(next.Add(1)) - 1; part < parts; part = int(next.Add(1)) - 1 {
			h.failures = failures{}
			for i := part * few; i < min(n, (part+1)*few); i++ {
				work(&h, i)
			}
			failed[part] = h.failures
		}
	}
	var running sync.WaitGroup
	for range readers - 1 {
		running.Go(take)
	}
	take()
	running.Wait()
	for _, f := range failed {
		r.untold += f.untold
		for i, e := range f.errs {
			if first := r.seen[f.keys[i]]; first != nil {
				first.More += 1 + e.More
			} else {
				r.remember(f.keys[i], e)
			}
		}
	}
}

// folders tells whether the root can open folders.
func (r *reader) folders() bool {
	if r.folder != nil {
		return true
	}
	r.enter("sys")
	defer r.leave()
	return r.folder != nil
}
