package pci

import (
	"io"
	"io/fs"
	"runtime"
	"strings"
	"sync"
)

// folder is one that a root has opened: what is in it is had faster than by its
// path from the root.
type folder interface {
	into
	fs.ReadLinkFS
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

// each calls work for every function, in its folder. Where the root can open
// folders, several are read at once, each by a reader of its own: work changes
// nothing but its function. The errors are in order all the same.
func (r *reader) each(work func(r *reader, d *Device, dir string)) {
	all := r.t.Devices
	if len(all) == 0 {
		return
	}
	r.enter(r.dirs[all[0]])
	alone := r.folder == nil
	r.leave()
	const few = 32 // functions that are not worth another reader
	readers := min(runtime.GOMAXPROCS(0), (len(all)+few-1)/few)
	if alone {
		readers = 1
	}
	var running sync.WaitGroup
	helpers := make([]*reader, readers)
	for i := range helpers {
		h := *r
		h.buf, h.errs, h.keys, h.seen = make([]byte, len(r.buf)), nil, nil, map[failure]*Error{}
		helpers[i] = &h
		part := all[len(all)*i/readers : len(all)*(i+1)/readers]
		running.Go(func() {
			for _, d := range part {
				h.enter(h.dirs[d])
				work(&h, d, h.dirs[d])
			}
			h.leave()
		})
	}
	running.Wait()
	for _, h := range helpers {
		for i, e := range h.errs {
			if first := r.seen[h.keys[i]]; first != nil {
				first.More += 1 + e.More
			} else {
				r.remember(h.keys[i], e)
			}
		}
	}
}
