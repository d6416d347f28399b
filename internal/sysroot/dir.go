package sysroot

import (
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Dir gives a folder as a root. A tree of some hundred devices is thousands of
// small files, so that what is read most costs the fewest calls.
//
// The root also has ReadInto(name, b), which makes nothing.
func Dir(name string) (fs.FS, error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	d := newDir(fd)
	var here, top unix.Stat_t
	d.whole = unix.Fstat(fd, &here) == nil && unix.Stat("/", &top) == nil && here.Dev == top.Dev && here.Ino == top.Ino
	return d, nil
}

type dir struct {
	fd    int
	whole bool // it is "/": links cannot leave it
}

func newDir(fd int) *dir {
	d := &dir{fd: fd}
	runtime.AddCleanup(d, func(fd int) { unix.Close(fd) }, fd)
	return d
}

// noOpenat2 is set where the kernel, or a container's filter, refuses it.
var noOpenat2 atomic.Bool

// open opens name with links resolved inside the root. Neither a FIFO nor a
// terminal that a folder may hold is waited for.
func (d *dir) open(name string, flags int) (int, error) {
	defer runtime.KeepAlive(d)
	flags |= unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
	if d.whole {
		return retry(func() (int, error) { return unix.Openat(d.fd, name, flags, 0) })
	}
	if !noOpenat2.Load() {
		how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_IN_ROOT}
		if flags&unix.O_PATH != 0 {
			how.Flags &^= unix.O_NONBLOCK | unix.O_NOCTTY // refused beside it
		}
		// EAGAIN: something was renamed somewhere while the kernel went up a "..".
		for range 8 {
			fd, err := retry(func() (int, error) { return unix.Openat2(d.fd, name, &how) })
			switch err {
			case unix.EAGAIN:
				continue
			case unix.ENOSYS, unix.EPERM:
				noOpenat2.Store(true)
			default:
				return fd, err
			}
			break
		}
	}
	return d.walk(name, flags)
}

// walk does by hand what openat2 does.
func (d *dir) walk(name string, flags int) (int, error) {
	plain, err := follow(name, flags&unix.O_NOFOLLOW == 0, func(p string) (string, error) {
		target, err := readlinkat(d.fd, p)
		if err == unix.EINVAL {
			return "", nil
		}
		return target, err
	})
	if err != nil {
		return -1, err
	}
	return retry(func() (int, error) { return unix.Openat(d.fd, plain, flags|unix.O_NOFOLLOW, 0) })
}

func retry(open func() (int, error)) (int, error) {
	for {
		if fd, err := open(); err != unix.EINTR {
			return fd, err
		}
	}
}

func readlinkat(fd int, name string) (string, error) {
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(fd, name, buf[:])
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

func (d *dir) Open(name string) (fs.File, error) {
	if err := check("open", name); err != nil {
		return nil, err
	}
	fd, err := d.open(name, unix.O_RDONLY)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &file{dir: d, name: name, fd: os.NewFile(uintptr(fd), name)}, nil
}

func (d *dir) ReadFile(name string) ([]byte, error) {
	if err := check("open", name); err != nil {
		return nil, err
	}
	fd, err := d.open(name, unix.O_RDONLY)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	defer unix.Close(fd)
	var page [4096]byte
	var data []byte
	for {
		n, err := read(fd, page[:])
		if err != nil {
			return nil, pathError("read", name, err)
		}
		data = append(data, page[:n]...)
		if n == 0 {
			return data, nil
		}
		if len(data) > maxFile {
			return nil, pathError("read", name, unix.EFBIG)
		}
	}
}

// ReadInto reads the first bytes of a file into b, as many as there are or as b
// holds, and makes nothing.
func (d *dir) ReadInto(name string, b []byte) (int, error) {
	if err := check("open", name); err != nil {
		return 0, err
	}
	fd, err := d.open(name, unix.O_RDONLY)
	return readInto(fd, err, strings.HasPrefix(name, "sys/"), name, b)
}

// readInto reads what was opened. A file of /sys gives all that it has at once, so
// that nobody asks again.
func readInto(fd int, err error, sys bool, name string, b []byte) (int, error) {
	if err != nil {
		return 0, pathError("open", name, err)
	}
	defer unix.Close(fd)
	total := 0
	for total < len(b) {
		n, err := read(fd, b[total:])
		if err != nil {
			return 0, pathError("read", name, err)
		}
		total += n
		if n == 0 || sys && n < 4096 {
			break
		}
	}
	return total, nil
}

func read(fd int, buf []byte) (int, error) {
	for {
		if n, err := unix.Read(fd, buf); err != unix.EINTR {
			return n, err
		}
	}
}

func (d *dir) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := check("open", name); err != nil {
		return nil, err
	}
	fd, err := d.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	return d.readDir(name, fd, err)
}

// readDir reads the folder that was opened.
func (d *dir) readDir(name string, fd int, err error) ([]fs.DirEntry, error) {
	if err != nil {
		return nil, pathError("open", name, err)
	}
	defer unix.Close(fd)
	entries, err := d.entries(name, fd)
	if err != nil {
		return entries, pathError("readdir", name, err)
	}
	return entries, nil
}

func (d *dir) ReadLink(name string) (string, error) {
	if err := check("readlink", name); err != nil {
		return "", err
	}
	target, err := d.readlink(name)
	if err != nil {
		return "", pathError("readlink", name, err)
	}
	return target, nil
}

func (d *dir) readlink(name string) (string, error) {
	if d.whole || !strings.Contains(name, "/") {
		defer runtime.KeepAlive(d)
		return readlinkat(d.fd, name)
	}
	fd, err := d.open(name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	target, err := readlinkat(fd, "")
	if err == unix.ENOENT { // so the kernel says of what is no link
		err = unix.EINVAL
	}
	return target, err
}

func (d *dir) Stat(name string) (fs.FileInfo, error)  { return d.stat("stat", name, 0) }
func (d *dir) Lstat(name string) (fs.FileInfo, error) { return d.stat("lstat", name, unix.O_NOFOLLOW) }

func (d *dir) stat(op, name string, nofollow int) (fs.FileInfo, error) {
	if err := check(op, name); err != nil {
		return nil, err
	}
	fd, err := d.open(name, unix.O_PATH|nofollow)
	if err != nil {
		return nil, pathError(op, name, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, pathError(op, name, err)
	}
	return statInfo{path.Base(name), st}, nil
}
