package provider

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Mapping is a piece of a process's memory (proc_pid_maps(5)).
type Mapping struct {
	Start, End uint64
	Offset     uint64 // in the file
	Device     uint64 // that the file is on
	Inode      uint64 // 0 is no file
	Path       string // as the process named it, without " (deleted)"
	Deleted    bool
	read       bool
	write      bool
	execute    bool
}

// Executable tells whether the mapping is code.
func (m Mapping) Executable() bool { return m.execute }

func parseMaps(r io.Reader) (list []Mapping, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m, err := parseMapping(lines.Text())
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, lines.Err()
}

// parseMapping takes "start-end perms offset major:minor inode path".
func parseMapping(line string) (m Mapping, err error) {
	var part [5]string
	rest := line
	for i := range part {
		rest = strings.TrimLeft(rest, " ")
		part[i], rest, _ = strings.Cut(rest, " ")
	}
	number := func(s string, base int) uint64 {
		v, e := strconv.ParseUint(s, base, 64)
		if e != nil && err == nil {
			err = fmt.Errorf("line %q of maps: %w", line, e)
		}
		return v
	}
	start, end, _ := strings.Cut(part[0], "-")
	major, minor, _ := strings.Cut(part[3], ":")
	m = Mapping{
		Start: number(start, 16), End: number(end, 16), Offset: number(part[2], 16),
		Device: unix.Mkdev(uint32(number(major, 16)), uint32(number(minor, 16))), Inode: number(part[4], 10),
		// The kernel writes newlines of a name as \012.
		Path: strings.ReplaceAll(strings.TrimLeft(rest, " "), `\012`, "\n"),
		read: strings.HasPrefix(part[1], "r"), write: strings.Contains(part[1], "w"), execute: strings.Contains(part[1], "x"),
	}
	if m.Inode != 0 {
		m.Path, m.Deleted = strings.CutSuffix(m.Path, " (deleted)")
	}
	return m, err
}

// Process is a process whose memory is read, by its number.
type Process struct {
	PID  int
	Maps []Mapping
	root string // "/proc", or another in tests
}

// OpenProcess reads what a process has mapped now.
func OpenProcess(pid int) (*Process, error) { return openProcess("/proc", pid) }

func openProcess(root string, pid int) (*Process, error) {
	p := &Process{PID: pid, root: root}
	f, err := os.Open(p.path("maps"))
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("no process %d: %w", pid, err)
		}
		return nil, err
	}
	defer f.Close()
	if p.Maps, err = parseMaps(f); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Process) path(name string) string {
	return filepath.Join(p.root, strconv.Itoa(p.PID), name)
}

// providerName is compiled when it is first needed: every command would wait for it.
var providerName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^lib(.*-rdmav[0-9]+\.so|(efa|hns|ionic|mana|mlx4|mlx5)\.so(\.[0-9.]+)?)$`)
})

// isProvider knows a provider's library by its file's name: most are called
// libNAME-rdmavNN.so; of those with an interface of their own that is a link.
func isProvider(name string) bool { return providerName().MatchString(name) }

// Providers gives the code of each provider's library that the process has mapped.
func (p *Process) Providers() (list []Mapping) {
	for _, m := range p.Maps {
		if m.execute && m.Inode != 0 && isProvider(path.Base(m.Path)) {
			list = append(list, m)
		}
	}
	return list
}

// File gives a path to the very file that is mapped, though its name be gone or
// another's by now, as upgrades leave it: note tells of that. The path is good as long
// as the process has the mapping.
func (p *Process) File(m Mapping) (file, note string, err error) {
	now := filepath.Join(p.path("root"), m.Path)
	same := false
	if info, err := os.Stat(now); err == nil {
		s := info.Sys().(*syscall.Stat_t)
		// Files of overlay file systems have two numbers: the mapping's is not the name's.
		same = s.Ino == m.Inode && s.Dev == m.Device
	}
	if m.Deleted {
		note = m.Path + " was deleted or replaced since the process loaded it: what is mapped is traced; programs that start now load another"
	}
	exact := p.path(fmt.Sprintf("map_files/%x-%x", m.Start, m.End))
	f, err := os.Open(exact)
	if err == nil {
		f.Close()
		return exact, note, nil
	}
	if !same {
		return "", note, fmt.Errorf("%s: the mapped file cannot be reached: %w", m.Path, err)
	}
	return now, note, nil
}

// Open opens the library that is mapped.
func (p *Process) Open(m Mapping) (l *Library, file, note string, err error) {
	file, note, err = p.File(m)
	if err != nil {
		return nil, "", note, err
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, "", note, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, "", note, err
	}
	// Read whole: ReadLibrary's result may outlive the process.
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, "", note, fmt.Errorf("%s: %w", m.Path, err)
	}
	if l, err = ReadLibrary(bytes.NewReader(data)); err != nil {
		return nil, "", note, fmt.Errorf("%s: %w", m.Path, err)
	}
	return l, file, note, nil
}
