// Package outfile writes a command's output files: whole, or not at all.
package outfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Write makes the file of that name from what write gives it. Readers see the old
// file, or none, until the new one is complete; after an error they still do. A
// file that is there keeps its mode, a link is followed, and what is no regular
// file (/dev/null, a FIFO) is written to as it stands.
func Write(name string, write func(io.Writer) error) error {
	if to, err := filepath.EvalSymlinks(name); err == nil {
		name = to
	}
	old, err := os.Stat(name)
	switch {
	case err == nil && old.IsDir():
		return isFolder(name)
	case err == nil && !old.Mode().IsRegular():
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return finish(f, write)
	}
	f, err := create(name)
	if err != nil {
		return err
	}
	err = finish(f, func(w io.Writer) error {
		if old != nil {
			if err := f.Chmod(old.Mode().Perm()); err != nil {
				return err
			}
		}
		return write(w)
	})
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// Check tells why Write would fail, before the work for it is done; what is no regular
// file is not opened for that.
func Check(name string) error {
	if to, err := filepath.EvalSymlinks(name); err == nil {
		name = to
	}
	switch old, err := os.Stat(name); {
	case err == nil && old.IsDir():
		return isFolder(name)
	case err == nil && !old.Mode().IsRegular():
		return nil
	}
	f, err := create(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func isFolder(name string) error {
	return fmt.Errorf("write %s: it is a folder; name a file in it", name)
}

// create makes a file beside name, with the mode that the umask allows.
func create(name string) (*os.File, error) {
	dir, base := filepath.Split(name)
	for range 100 {
		f, err := os.OpenFile(fmt.Sprintf("%s.%s.%08x", dir, base, rand.Uint32()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		var p *fs.PathError
		if errors.As(err, &p) {
			p.Path = name
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: make the folder %s first", err, filepath.Dir(name))
		}
		return f, err
	}
	return nil, fmt.Errorf("write %s: no free name for a temporary file beside it", name)
}

func finish(f *os.File, write func(io.Writer) error) error {
	b := bufio.NewWriter(f)
	err := write(b)
	if err == nil {
		err = b.Flush()
	}
	return errors.Join(err, f.Close())
}
