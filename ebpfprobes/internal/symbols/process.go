package symbols

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/provider"
)

// ID tells a process from another that has its number later.
type ID struct {
	PID   int
	Began uint64 // ns of CLOCK_BOOTTIME, as the kernel keeps it
}

// Process is what is known of a process, though it be gone.
type Process struct {
	ID   ID
	set  *Set
	maps []provider.Mapping
	used map[fileID]*Binary // of maps, as far as they are code
	err  error              // why nothing is known
	gone bool
	read time.Time // when it was tried to read maps
}

type fileID struct{ device, inode uint64 }

// Set holds processes and the files that they have mapped. It is for one goroutine.
type Set struct {
	processes map[ID]*Process
	binaries  map[fileID]*Binary
	failed    map[fileID]bool // files that are no programs
}

// NewSet gives an empty set.
func NewSet() *Set {
	return &Set{processes: make(map[ID]*Process), binaries: make(map[fileID]*Binary), failed: make(map[fileID]bool)}
}

// See gives a process, and notes what it has mapped when it is seen first.
func (s *Set) See(id ID) *Process {
	p := s.processes[id]
	if p == nil {
		p = &Process{ID: id, set: s, used: make(map[fileID]*Binary)}
		s.processes[id] = p
		p.capture()
	}
	return p
}

// Keep forgets the processes that are not asked for, and the files that they alone had.
func (s *Set) Keep(wanted func(ID) bool) {
	used := make(map[*Binary]bool)
	for id, p := range s.processes {
		if !wanted(id) {
			delete(s.processes, id)
			clear(s.failed) // another file may have the number now
			continue
		}
		for _, b := range p.used {
			used[b] = true
		}
	}
	for id, b := range s.binaries {
		if !used[b] {
			b.close()
			delete(s.binaries, id)
		}
	}
}

// Close forgets everything.
func (s *Set) Close() { s.Keep(func(ID) bool { return false }) }

// Err tells why nothing is known of the process; nil if something is.
func (p *Process) Err() error { return p.err }

// Alive tells whether the process is still there: its number may be another's by now,
// or kept by a parent that has not asked for its end. One that cannot be read is.
func (id ID) Alive() bool {
	began, ended, err := startTicks(id.PID)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH)
	}
	return !ended && began == id.Began/nsPerTick
}

// nsPerTick is of the kernel's USER_HZ, which is 100 on every architecture here.
const nsPerTick = 10_000_000

// startTicks reads when a process began, and whether it has ended: fields 22, 3 and 20
// of /proc/PID/stat, behind a name that may hold anything.
func startTicks(pid int) (began uint64, ended bool, err error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, false, err
	}
	i := strings.LastIndexByte(string(text), ')')
	fields := strings.Fields(string(text[i+1:]))
	if i < 0 || len(fields) < 20 {
		return 0, false, fmt.Errorf("stat of process %d: it has %d fields", pid, len(fields))
	}
	// A process whose first thread has ended goes on while it has others.
	threads, err := strconv.Atoi(fields[17])
	if err != nil {
		return 0, false, fmt.Errorf("stat of process %d: %w", pid, err)
	}
	began, err = strconv.ParseUint(fields[19], 10, 64)
	return began, fields[0] == "X" || fields[0] == "Z" && threads <= 1, err
}

var (
	errGone    = errors.New("the process had ended before its files were read")
	errNothing = errors.New("the process has nothing mapped")
)

// capture notes the mappings and opens the files of those that are code. What fails for
// the moment is tried again when it is asked for again.
func (p *Process) capture() {
	p.read = time.Now()
	now, err := provider.OpenProcess(p.ID.PID)
	if !p.ID.Alive() {
		p.gone = true
		err = errors.Join(errGone, err)
	} else if err == nil && len(now.Maps) == 0 {
		err = errNothing
	}
	if err != nil {
		if p.maps == nil {
			p.err = err
		}
		return
	}
	p.maps, p.err = now.Maps, nil
	for _, m := range p.maps {
		id := fileID{m.Device, m.Inode}
		// To open a device may have effects.
		if m.Inode == 0 || !m.Executable() || strings.HasPrefix(m.Path, "/dev/") || p.used[id] != nil || p.set.failed[id] {
			continue
		}
		b := p.set.binaries[id]
		if b == nil {
			f, err := open(now, m)
			if err != nil {
				continue
			}
			if b, err = openBinary(f); err != nil {
				p.set.failed[id] = true
				continue
			}
			p.set.binaries[id] = b
		}
		p.used[id] = b
	}
}

func open(p *provider.Process, m provider.Mapping) (*os.File, error) {
	path, _, err := p.File(m)
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

// mapping gives what an address is in. One that is not known may have been mapped since.
func (p *Process) mapping(address uint64) (provider.Mapping, bool) {
	for fresh := false; ; fresh = true {
		for _, m := range p.maps {
			if address >= m.Start && address < m.End {
				return m, true
			}
		}
		// Wrong addresses are common where an unwinding goes astray.
		if fresh || p.gone || address < 1<<12 || time.Since(p.read) < 100*time.Millisecond {
			return provider.Mapping{}, false
		}
		p.capture()
	}
}

// isCode tells whether an address is one that the process can execute. Of a process of
// which nothing is known, all are.
func (p *Process) isCode(address uint64) bool {
	m, ok := p.mapping(address)
	return ok && m.Executable() || len(p.maps) == 0
}

// find gives the file that an address is in, and where there.
func (p *Process) find(address uint64) (*Binary, uint64, bool) {
	m, ok := p.mapping(address)
	if !ok {
		return nil, 0, false
	}
	b := p.used[fileID{m.Device, m.Inode}]
	if b == nil {
		return nil, 0, false
	}
	a, ok := b.address(address - m.Start + m.Offset)
	return b, a, ok
}

// Frame is an address with its name.
type Frame struct {
	Address  uint64
	Function string // "" is unknown
	Offset   uint64 // in the function; or in the file, if the function is unknown
	File     string // as the process mapped it; "" is no file
}

// String gives the function and its file's name, or as much as is known.
func (f Frame) String() string {
	file := filepath.Base(f.File)
	switch {
	case f.Function != "":
		return fmt.Sprintf("%s+%#x (%s)", f.Function, f.Offset, file)
	case f.File != "":
		return fmt.Sprintf("%s+%#x", file, f.Offset)
	}
	return fmt.Sprintf("%#x", f.Address)
}

// Name names the addresses of a stack, as Unwind gives them.
func (p *Process) Name(addresses []uint64) []Frame {
	frames := make([]Frame, 0, len(addresses))
	for i, a := range addresses {
		at := a
		if i > 0 { // what calls and never comes back may be the function's last
			at--
		}
		f := Frame{Address: a}
		if m, ok := p.mapping(at); ok && m.Path != "" {
			f.File, f.Offset = m.Path, a-m.Start+m.Offset
			if b, address, ok := p.find(at); ok {
				if name, offset, ok := b.name(address); ok {
					f.Function, f.Offset = name, offset+(a-at)
				}
			}
		}
		frames = append(frames, f)
	}
	return frames
}
