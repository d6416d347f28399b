package lab

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// prefixer merges the output of several guests line by line.
type prefixer struct {
	mu      sync.Mutex // one line at a time, stdout, stderr and the lab's own alike
	writers []*lineWriter
}

// lines gives a writer for one stream of one node. With one node in all it
// passes everything on as it comes, so that what a command prints can be piped.
func (p *prefixer) lines(node, nodes int, w io.Writer) io.Writer {
	if nodes == 1 {
		return p.plain(w)
	}
	lw := &lineWriter{p: p, w: w, prefix: fmt.Appendf(nil, "node%d | ", node)}
	p.mu.Lock()
	p.writers = append(p.writers, lw)
	p.mu.Unlock()
	return lw
}

// plain gives a writer that only waits its turn.
func (p *prefixer) plain(w io.Writer) io.Writer { return plainWriter{p, w} }

type plainWriter struct {
	p *prefixer
	w io.Writer
}

func (pw plainWriter) Write(b []byte) (int, error) {
	pw.p.mu.Lock()
	defer pw.p.mu.Unlock()
	return pw.w.Write(b)
}

// flush writes what did not end in a newline.
func (p *prefixer) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, lw := range p.writers {
		if len(lw.rest) > 0 {
			lw.line(append(lw.rest, '\n'))
			lw.rest = nil
		}
	}
}

// maxLine bounds what is kept of a line that does not end, bytes.
const maxLine = 64 << 10

type lineWriter struct {
	p      *prefixer
	w      io.Writer
	prefix []byte
	rest   []byte // of a line that has not ended
}

func (lw *lineWriter) Write(b []byte) (int, error) {
	lw.p.mu.Lock()
	defer lw.p.mu.Unlock()
	lw.rest = append(lw.rest, b...)
	for {
		i := bytes.IndexByte(lw.rest, '\n')
		if i < 0 {
			break
		}
		lw.line(lw.rest[:i+1])
		lw.rest = lw.rest[i+1:]
	}
	if len(lw.rest) > maxLine {
		lw.line(append(lw.rest, '\n'))
		lw.rest = nil
	}
	return len(b), nil
}

// line writes one line in one piece.
func (lw *lineWriter) line(b []byte) {
	lw.w.Write(append(lw.prefix[:len(lw.prefix):len(lw.prefix)], b...))
}
