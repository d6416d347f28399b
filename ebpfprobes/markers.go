package ebpfprobes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/usdt"
)

// markedRole is the role of probes at marks.
const markedRole = "marked operations"

// How often programs with marks are looked for, and how much of a processor's time
// looking may take: it is one part of so many.
const (
	markedEvery = time.Second
	markedPart  = 200
)

// markedLinger is how long a probe stays in a file that no process runs any more: what
// ends may be started again.
const markedLinger = time.Minute

// mostFiles bounds the files that are known: what is more is forgotten, and read again.
const mostFiles = 4096

// marked follows the marks of this project's queues, in every program that has them: it
// looks for these among the processes.
type marked struct {
	session *CompletionSession
	pid     int // 0 is all
	program *ebpf.Program

	running sync.Mutex // over stop and done
	stop    context.CancelFunc
	done    chan struct{}

	mu      sync.Mutex // over all below
	files   map[fileKey]*markedFile
	shed    string // why it stays detached
	devices map[uint64]string
}

// fileKey tells files apart, and a file from what it was before it was written.
type fileKey struct {
	device, inode uint64
	size          int64
	changed       unix.Timespec
}

// markedFile is an executable file that some process runs.
type markedFile struct {
	probe Probe // without a role: it has no marks
	link  link.Link
	seen  time.Time
}

func newMarked(s *CompletionSession, pid int) (*marked, error) {
	const name = "marked"
	c, err := ebpf.NewCollectionWithOptions(&ebpf.CollectionSpec{
		Maps: s.spec.Maps, Programs: map[string]*ebpf.ProgramSpec{name: s.spec.Programs[name]},
		Variables: s.spec.Variables, Types: s.spec.Types, ByteOrder: s.spec.ByteOrder,
	}, ebpf.CollectionOptions{MapReplacements: maps.Clone(s.maps)})
	if err != nil {
		return nil, loadError("load the program for marks", err)
	}
	defer c.Close()
	return &marked{session: s, pid: pid, program: c.DetachProgram(name), files: make(map[fileKey]*markedFile), devices: make(map[uint64]string)}, nil
}

// begin attaches to what there is, and from now on to what comes. Where nothing can be
// attached to, it tells why, and looks on.
func (m *marked) begin() error {
	m.running.Lock()
	defer m.running.Unlock()
	if m.stop != nil {
		return nil
	}
	m.mu.Lock()
	shed := m.shed
	m.mu.Unlock()
	if shed != "" {
		return errors.New(shed)
	}
	took := m.look()
	ctx, stop := context.WithCancel(context.Background())
	m.stop, m.done = stop, make(chan struct{})
	go m.run(ctx, m.done, took)
	return m.lacking()
}

// lacking is why nothing is attached to.
func (m *marked) lacking() error {
	err := errors.New("no program has marks")
	for _, p := range m.tell() {
		if p.Usable == Yes {
			return nil
		}
		if p.Err != nil {
			err = p.Err
		}
	}
	return err
}

// end detaches.
func (m *marked) end() error {
	m.running.Lock()
	defer m.running.Unlock()
	if m.stop == nil {
		return nil
	}
	m.stop()
	<-m.done
	m.stop = nil
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, f := range m.files {
		errs = append(errs, f.close())
	}
	clear(m.files)
	return errors.Join(errs...)
}

func (m *marked) run(ctx context.Context, done chan struct{}, took time.Duration) {
	defer close(done)
	for pause(ctx, max(markedEvery, markedPart*took)) {
		took = m.look()
	}
}

// unload frees the program.
func (m *marked) unload() error { return errors.Join(m.end(), m.program.Close()) }

func (f *markedFile) close() error {
	if f.link == nil {
		return nil
	}
	l := f.link
	f.link = nil
	return l.Close()
}

// look attaches to files with marks that processes run now, and detaches from those that
// none has run for a while. It tells how long that took.
func (m *marked) look() time.Duration {
	began := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pid != 0 {
		m.file(fmt.Sprintf("/proc/%d/exe", m.pid), began)
	} else {
		m.file("/proc/self/exe", began) // it will be started for transfers, too
		for _, pid := range processNumbers() {
			m.file("/proc/"+pid+"/exe", began)
		}
	}
	for k, f := range m.files {
		if began.Sub(f.seen) > markedLinger || len(m.files) > mostFiles && f.seen != began {
			f.close()
			delete(m.files, k)
		}
	}
	return time.Since(began)
}

// processNumbers are those of all processes.
func processNumbers() (numbers []string) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, n := range names {
		if _, err := strconv.ParseUint(n, 10, 32); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// file attaches to a process's executable if it has marks and is not known. A process
// that has ended, or may not be looked at, has none.
func (m *marked) file(path string, now time.Time) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		if m.pid != 0 && !errors.Is(err, fs.ErrNotExist) {
			m.files[fileKey{}] = &markedFile{seen: now, probe: markedProbe(path, err)}
		}
		return
	}
	key := fileKey{uint64(s.Dev), s.Ino, s.Size, s.Ctim}
	if f := m.files[key]; f != nil {
		f.seen = now
		return
	}
	f := &markedFile{seen: now}
	m.files[key] = f
	at, err := completeSite(path)
	if errors.Is(err, usdt.ErrNone) {
		return
	}
	name := path
	if n, e := os.Readlink(path); e == nil {
		name = n
	}
	if err == nil {
		f.link, err = m.attach(path, at)
	}
	f.probe = markedProbe(name, err)
}
