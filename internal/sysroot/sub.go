package sysroot

import (
	"io"
	"io/fs"
	"path"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Sub gives a folder of the root; it has ReadInto, At and Close besides. Its files cost
// half of what they cost by their path from the root. Links in it lead where they
// lead in the root. A folder that was removed stays so, even if there is another of
// its name.
func (d *dir) Sub(name string) (fs.FS, error) {
	if err := check("sub", name); err != nil {
		return nil, err
	}
	fd, err := d.open(name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	s := &sub{root: d, name: name, sys: strings.HasPrefix(name, "sys/"), fd: fd}
	s.cleanup = runtime.AddCleanup(s, func(fd int) { unix.Close(fd) }, fd)
	return s, nil
}

type sub struct {
	root    *dir
	name    string
	sys     bool // of /sys
	fd      int
	cleanup runtime.Cleanup
}

// Close closes the folder, which is not used any more.
func (s *sub) Close() error {
	s.cleanup.Stop()
	return unix.Close(s.fd)
}

// open opens a file of the folder; what a link leads to is opened by its path.
func (s *sub) open(name string, flags int) (int, error) {
	flags |= unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
	fd, err := -1, error(unix.ELOOP)
	switch {
	case !strings.Contains(name, "/"):
		fd, err = retry(func() (int, error) { return unix.Openat(s.fd, name, flags, 0) })
	case !noOpenat2.Load():
		how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
		fd, err = retry(func() (int, error) { return unix.Openat2(s.fd, name, &how) })
	}
	runtime.KeepAlive(s)
	switch err {
	case unix.ELOOP, unix.EXDEV, unix.EAGAIN, unix.ENOSYS, unix.EPERM:
		return s.root.open(path.Join(s.name, name), flags&^unix.O_NOFOLLOW)
	}
	return fd, err
}

func (s *sub) Open(name string) (fs.File, error) {
	if err := check("open", name); err != nil {
		return nil, err
	}
	return s.root.Open(path.Join(s.name, name))
}

// At opens a file to read some of it; it costs less than Open.
func (s *sub) At(name string) (io.ReaderAt, io.Closer, error) {
	if err := check("open", name); err != nil {
		return nil, nil, err
	}
	fd, err := s.open(name, unix.O_RDONLY)
	if err != nil {
		return nil, nil, pathError("open", name, err)
	}
	f := &raw{fd, name}
	return f, f, nil
}

// raw is a file that its user closes.
type raw struct {
	fd   int
	name string
}

func (f *raw) Close() error { return unix.Close(f.fd) }

func (f *raw) ReadAt(b []byte, off int64) (total int, err error) {
	for total < len(b) {
		n, err := unix.Pread(f.fd, b[total:], off+int64(total))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return total, pathError("read", f.name, err)
		}
		if n == 0 {
			return total, io.EOF
		}
		total += n
	}
	return total, nil
}

func (s *sub) ReadInto(name string, b []byte) (int, error) {
	if err := check("open", name); err != nil {
		return 0, err
	}
	fd, err := s.open(name, unix.O_RDONLY)
	return readInto(fd, err, s.sys, name, b)
}

func (s *sub) ReadFile(name string) ([]byte, error) {
	if err := check("open", name); err != nil {
		return nil, err
	}
	return s.root.ReadFile(path.Join(s.name, name))
}

func (s *sub) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := check("open", name); err != nil {
		return nil, err
	}
	fd, err := s.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	return s.root.readDir(path.Join(s.name, name), fd, err)
}

func (s *sub) ReadLink(name string) (string, error) {
	if err := check("readlink", name); err != nil {
		return "", err
	}
	if strings.Contains(name, "/") {
		return s.root.ReadLink(path.Join(s.name, name))
	}
	target, err := readlinkat(s.fd, name)
	runtime.KeepAlive(s)
	if err != nil {
		return "", pathError("readlink", name, err)
	}
	return target, nil
}

func (s *sub) Stat(name string) (fs.FileInfo, error) {
	if err := check("stat", name); err != nil {
		return nil, err
	}
	return s.root.Stat(path.Join(s.name, name))
}

func (s *sub) Lstat(name string) (fs.FileInfo, error) {
	if err := check("lstat", name); err != nil {
		return nil, err
	}
	return s.root.Lstat(path.Join(s.name, name))
}
