package dmabuf

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Info is what the kernel tells of a dma-buf.
type Info struct {
	Inode    uint64 // its own, never used again until the machine restarts
	Size     uint64 // bytes, 0 where it is not known
	Count    int64  // references: descriptors, mappings, importers; -1 where it is not known
	Exporter string // the driver, as "udmabuf" or "nv_dmabuf"; "" where it is not known
	Name     string // given by SetName
}

// errNotDMABuf is of the class EINVAL, as the kernel has it.
var errNotDMABuf = fmt.Errorf("it is no dma-buf: %w", syscall.EINVAL)

// magicDMABuf is the type of the file system of dma-bufs (linux/magic.h, "DMAB").
const magicDMABuf = 0x444d4142

// Info asks the kernel. Exporter, Name and Count need /proc.
func (b *Buffer) Info() (Info, error) {
	var info Info
	err := b.use("fdinfo", func(fd int) (err error) {
		if info, err = stat(fd); err != nil {
			return &Error{Op: "fdinfo", Exporter: b.Exporter, Err: err}
		}
		return nil
	})
	return info, err
}

// stat describes a descriptor of this process: errNotDMABuf where it is
// something else, EBADF where it is not open.
func stat(fd int) (Info, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return Info{}, err
	}
	if fs.Type != magicDMABuf {
		return Info{}, errNotDMABuf
	}
	size, err := unix.Seek(fd, 0, io.SeekEnd)
	if err != nil {
		return Info{}, err
	}
	inode, err := inodeOf(fd)
	if err != nil {
		return Info{}, err
	}
	info := Info{Count: -1}
	if text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd)); err == nil {
		if told, ok := parseFDInfo(string(text)); ok {
			info = told
		}
	}
	info.Size, info.Inode = uint64(size), inode
	return info, nil
}

func inodeOf(fd int) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	return st.Ino, nil
}

// parseFDInfo reads /proc/PID/fdinfo/N of a dma-buf (drivers/dma-buf/dma-buf.c,
// 5.3 to 7.3; ino since 5.14); ok is false where it is of another kind of file.
// The name comes last and is the user's: it may hold anything, lines included.
func parseFDInfo(text string) (info Info, ok bool) {
	info.Count = -1
	for text != "" {
		line, rest, _ := strings.Cut(text, "\n")
		key, value, found := strings.Cut(line, ":")
		if !found {
			text = rest
			continue
		}
		value = strings.TrimSpace(value)
		switch key {
		case "ino":
			info.Inode, _ = strconv.ParseUint(value, 10, 64)
		case "size":
			info.Size, _ = strconv.ParseUint(value, 10, 64)
		case "count":
			if n, err := strconv.ParseInt(value, 10, 64); err == nil {
				info.Count = n
			}
		case "exp_name":
			info.Exporter, ok = value, true
		case "name":
			if ok {
				_, name, _ := strings.Cut(text, ":")
				info.Name = strings.TrimSuffix(strings.TrimPrefix(name, "\t"), "\n")
				return info, true
			}
		}
		text = rest
	}
	return info, ok
}

// Mapping is a piece of a process's address space that shows a dma-buf.
type Mapping struct {
	Start, End uint64 // addresses
	Offset     uint64 // of Start, in the dma-buf
	Access     string // as "rw-s"
}

// Held is a dma-buf that a process holds, by descriptors or mappings.
type Held struct {
	Info
	FDs      []int // ascending
	Mappings []Mapping
}

// HeldBy lists the dma-bufs that a process holds, ordered by inode. root is
// the system's, "/" for this one. What only a mapping shows has neither size
// nor exporter: the kernel tells them of descriptors alone. A registration of
// a NIC, or a mapping of another driver, is no process's and adds only to
// Count.
//
// Errors: ESRCH where there is no such process, of the class ErrPermission
// where it is another user's.
func HeldBy(root string, pid int) ([]Held, error) {
	dir := filepath.Join(root, "proc", strconv.Itoa(pid))
	found := make(map[uint64]*Held)
	at := func(inode uint64) *Held {
		if found[inode] == nil {
			found[inode] = &Held{Info: Info{Inode: inode, Count: -1}}
		}
		return found[inode]
	}
	if err := heldFDs(dir, at); err != nil {
		return nil, procError(pid, err)
	}
	maps, err := os.ReadFile(filepath.Join(dir, "maps"))
	if err != nil {
		return nil, procError(pid, err)
	}
	for line := range strings.Lines(string(maps)) {
		if m, inode, name, ok := parseMapping(line); ok {
			h := at(inode)
			h.Mappings = append(h.Mappings, m)
			if len(h.FDs) == 0 {
				h.Name = name
			}
		}
	}
	return sortHeld(found), nil
}

// heldFDs adds what the descriptors of the process in dir are.
func heldFDs(dir string, at func(inode uint64) *Held) error {
	entries, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// A process goes on while it is looked at: what is closed meanwhile is
		// left out. Only what the link names can be a dma-buf, and a program
		// that holds a million sockets is spared the reading of them.
		if link, err := os.Readlink(filepath.Join(dir, "fd", e.Name())); err != nil || !strings.HasPrefix(link, mappingPrefix) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "fdinfo", e.Name()))
		if err != nil {
			continue
		}
		info, ok := parseFDInfo(string(text))
		if !ok {
			continue
		}
		if info.Inode == 0 {
			var st unix.Stat_t
			if unix.Stat(filepath.Join(dir, "fd", e.Name()), &st) != nil {
				continue
			}
			info.Inode = st.Ino
		}
		h := at(info.Inode)
		h.Info = info
		h.FDs = append(h.FDs, fd)
	}
	return nil
}

// procError gives what went wrong with a process's files.
func procError(pid int, err error) error {
	object := fmt.Sprintf("process %d", pid)
	const op = "dma-bufs held"
	errno := syscall.Errno(0)
	if e, ok := underlying(err); ok {
		errno = e
	}
	switch errno {
	case syscall.ENOENT, syscall.ESRCH:
		return &Error{Op: op, Exporter: object, Err: syscall.ESRCH, Detail: "it has ended, or is of another PID namespace"}
	case syscall.EACCES, syscall.EPERM:
		return &Error{Op: op, Exporter: object, Err: errno, Detail: "it is another user's or guards its memory; ask as root (CAP_SYS_PTRACE)"}
	case 0:
		return &Error{Op: op, Exporter: object, Err: err}
	}
	return &Error{Op: op, Exporter: object, Err: errno}
}
