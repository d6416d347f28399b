package dmabuf

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// memfdPrefix begins the path of a memfd in /proc.
const memfdPrefix = "/memfd:"

// findMapping finds the memfd behind addresses of this process in the text of
// /proc/self/maps. Several mappings may hold them, if they show the memfd in
// one piece; the result is the first.
func findMapping(text string, address, size uint64) (mapsLine, error) {
	var first, last mapsLine
	for line := range strings.Lines(text) {
		l, ok := parseMapsLine(line)
		if !ok || l.End <= address {
			continue
		}
		reached := address // by the mappings so far
		if last.End != 0 {
			reached = last.End
		}
		switch {
		case l.Start > reached:
			return mapsLine{}, fmt.Errorf("nothing is mapped at address %#x", reached)
		case !strings.HasPrefix(l.path, memfdPrefix):
			what := l.path
			if what == "" {
				what = "anonymous memory"
			}
			return mapsLine{}, fmt.Errorf("address %#x is %s, and only a memfd's pages can become a dma-buf: allocate by this exporter, or by memfd_create with MFD_ALLOW_SEALING", reached, what)
		case l.Access[3] != 's':
			return mapsLine{}, fmt.Errorf("address %#x is a private mapping: what is written to it is not in the memfd; map it with MAP_SHARED", reached)
		case l.Access[:2] != "rw":
			return mapsLine{}, fmt.Errorf("address %#x is mapped %s: map it for reading and writing", reached, l.Access)
		case last.End == 0:
			first = l
		case l.inode != last.inode || l.device != last.device || l.Offset != last.Offset+(last.End-last.Start):
			return mapsLine{}, fmt.Errorf("the bytes are not in one piece: at address %#x another part or another memfd begins", reached)
		}
		if last = l; l.End >= address+size {
			return first, nil
		}
	}
	return mapsLine{}, fmt.Errorf("nothing is mapped at address %#x", max(address, last.End))
}

// descriptor gives a new descriptor of the memfd that l shows.
func (l *mapsLine) descriptor() (int, error) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1, err
	}
	for _, e := range entries {
		link, err := os.Readlink("/proc/self/fd/" + e.Name())
		number, _ := strconv.Atoi(e.Name())
		if err != nil || !strings.HasPrefix(link, memfdPrefix) {
			continue
		}
		fd, err := unix.FcntlInt(uintptr(number), unix.F_DUPFD_CLOEXEC, 0)
		if err == syscall.EMFILE {
			return -1, err
		}
		if err != nil {
			continue
		}
		// Looked at through the duplicate, which nobody closes meanwhile.
		if l.isFile(fd) && writable(fd) {
			return fd, nil
		}
		unix.Close(fd)
	}
	path := fmt.Sprintf("/proc/self/map_files/%x-%x", l.Start, l.End)
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if !l.isFile(fd) {
		unix.Close(fd)
		return -1, syscall.ESTALE
	}
	return fd, nil
}

// isFile says whether the descriptor is the file of the mapping. Inodes of
// memfds are of one file system, but for those of huge pages.
func (l *mapsLine) isFile(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Ino == l.inode && l.device == fmt.Sprintf("%02x:%02x", unix.Major(st.Dev), unix.Minor(st.Dev))
}

// writable: seals are added through a descriptor that may write.
func writable(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE == unix.O_RDWR
}
