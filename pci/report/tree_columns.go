package report

import (
	"strconv"
	"strings"
)

// Bounds of columns. What is longer goes over its column where lines have no bound,
// and is cut where they have one.
const (
	widestName  = 24
	widestModel = 40
	widestLink  = 12 // "32 GT/s x16"; what is slower than it could be goes over
	leastModel  = 6  // a model cut to less says nothing
	roomForNote = 24 // what a model leaves to the rails and notes behind it
)

// layout prints the rows: of the devices the columns stand below each other.
func (p *treePrinter) layout() {
	branch, name, what, link := p.measure()
	for i := range p.rows {
		r := &p.rows[i]
		line := r.branch
		if !r.device {
			if r.link != "" {
				if p.width > 0 {
					line = cut(line, max(p.width-2-columns(r.link), columns(r.link)))
				}
				line += "  " + r.link
			}
			p.line(line)
			continue
		}
		line = pad(line, branch)
		if p.width > 0 {
			line += "  " + pad(cut(r.name, name), name)
			r.what = cut(r.what, what)
		} else {
			line += "  " + pad(r.name, name)
		}
		if what > 0 {
			line += "  " + pad(r.what, what)
		}
		if link > 0 {
			line += "  " + pad(r.link, link)
		}
		room := 0
		if p.width > 0 {
			room = max(p.width-columns(line)-2, 1)
		}
		p.line(line + "  " + r.note(room))
	}
}

// measure finds how wide the columns are; 0 is none. Where the width does not do for
// all, it is the model that gives way.
func (p *treePrinter) measure() (branch, name, what, link int) {
	note := 0
	for i := range p.rows {
		if r := &p.rows[i]; r.device {
			branch = max(branch, columns(r.branch))
			name = max(name, columns(r.name))
			what = max(what, columns(r.what))
			link = max(link, columns(r.link))
			note = max(note, columns(r.note(0)))
		}
	}
	name, what, link = min(name, widestName), min(what, widestModel), min(link, widestLink)
	if p.width == 0 {
		return branch, name, what, link
	}
	rest := p.width - branch - 2 - name - 2
	if link > 0 {
		rest -= 2 + link
	}
	if note > 0 {
		rest -= 2 + min(note, roomForNote)
	}
	if what = min(what, rest); what < leastModel {
		what = 0
	}
	return branch, name, what, link
}

// note is the rails and the notes, in at most some columns if that is not 0: rails
// that have no room are counted.
func (r *row) note(room int) string {
	rest := strings.Join(r.notes, ", ")
	if len(r.rails) == 0 {
		return rest
	}
	if rest != "" {
		rest = ", " + rest
	}
	if r.class != "" {
		rest = " (" + r.class + ")" + rest
	}
	for n := len(r.rails); ; n-- {
		s := "→ " + strings.Join(r.rails[:n], ", ")
		if more := len(r.rails) - n; more > 0 {
			s += " +" + strconv.Itoa(more)
		}
		if s += rest; n == 1 || room == 0 || columns(s) <= room {
			return s
		}
	}
}
