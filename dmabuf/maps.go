package dmabuf

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// mappingPrefix begins the path of a dma-buf in /proc: the name follows.
const mappingPrefix = "/dmabuf:"

// mapsLine is a line of /proc/PID/maps (fs/proc/task_mmu.c):
//
//	7f2c-8000 rw-s 00001000 00:0d 71   /path that may hold blanks
type mapsLine struct {
	Mapping
	device string // as "00:01"
	inode  uint64
	path   string
}

func parseMapsLine(line string) (m mapsLine, ok bool) {
	var field [5]string
	rest := strings.TrimRight(line, "\n")
	for i := range field {
		field[i], rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
	}
	m.path = strings.TrimLeft(rest, " ")
	start, end, _ := strings.Cut(field[0], "-")
	var err [4]error
	m.Start, err[0] = strconv.ParseUint(start, 16, 64)
	m.End, err[1] = strconv.ParseUint(end, 16, 64)
	m.Offset, err[2] = strconv.ParseUint(field[2], 16, 64)
	m.inode, err[3] = strconv.ParseUint(field[4], 10, 64)
	m.Access, m.device = field[1], field[3]
	return m, errors.Join(err[:]...) == nil && m.Start < m.End && len(m.Access) == 4
}

// parseMapping gives a line of /proc/PID/maps that shows a dma-buf.
func parseMapping(line string) (m Mapping, inode uint64, name string, ok bool) {
	l, ok := parseMapsLine(line)
	name, is := strings.CutPrefix(l.path, mappingPrefix)
	if !ok || !is {
		return Mapping{}, 0, "", false
	}
	return l.Mapping, l.inode, unescapeMaps(name), true
}

// unescapeMaps undoes what the kernel writes for a line's end in a path.
func unescapeMaps(path string) string { return strings.ReplaceAll(path, `\012`, "\n") }

func sortHeld(found map[uint64]*Held) []Held {
	all := make([]Held, 0, len(found))
	for _, h := range slices.SortedFunc(maps.Values(found), func(a, b *Held) int { return cmp.Compare(a.Inode, b.Inode) }) {
		slices.Sort(h.FDs)
		all = append(all, *h)
	}
	return all
}

// underlying gives the errno inside an error of package os.
func underlying(err error) (syscall.Errno, bool) {
	var errno syscall.Errno
	ok := errors.As(err, &errno)
	return errno, ok
}
