// Package sysroot opens system roots: a folder that is taken as "/", or a tar of
// one. Links stay inside the root, absolute ones and those with ".." too: a
// capture of another machine never shows a file of this one.
//
// The file systems also implement fs.ReadFileFS, fs.ReadDirFS, fs.StatFS and
// fs.ReadLinkFS.
package sysroot

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// Bounds on what a root may hold, so that a strange file is an error and not the
// end of memory. A real capture is a few megabytes.
const (
	maxFile  = 64 << 20  // bytes of one file
	maxTar   = 512 << 20 // bytes of an unpacked tar, and those that its files claim
	maxFiles = 1 << 20
	maxLinks = 40 // in one path, as the kernel's
)

// Open gives the root at name: a folder, or a tar, which may be compressed.
func Open(name string) (fs.FS, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return Dir(name)
	}
	return Tar(name)
}

// follow resolves the links in name, the last one too if last, and gives a path
// without any. readlink gives the target of a path, whose folders are no links,
// or "" if it is none.
func follow(name string, last bool, readlink func(string) (string, error)) (string, error) {
	done, rest, links := "", name, 0
	for rest != "" {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		switch part {
		case "", ".":
			continue
		case "..":
			if done = path.Dir(done); done == "." {
				done = ""
			}
			continue
		}
		next := path.Join(done, part)
		if rest == "" && !last {
			return next, nil
		}
		target, err := readlink(next)
		if err != nil {
			return "", err
		}
		if target == "" {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", syscall.ELOOP
		}
		if strings.HasPrefix(target, "/") {
			done = ""
		}
		if rest != "" {
			target += "/" + rest
		}
		rest = target
	}
	if done == "" {
		done = "."
	}
	return done, nil
}

// Resolve gives the path without links that name leads to in root; each link on
// the way, where it is and what it says, goes to seen. With last false a link that
// name itself is stays as it is, and unseen. The path need not exist.
func Resolve(root fs.FS, name string, last bool, seen func(at, target string)) (string, error) {
	if err := check("resolve", name); err != nil {
		return "", err
	}
	plain, err := follow(name, last, func(p string) (string, error) {
		target, err := fs.ReadLink(root, p)
		if err != nil || target == "" {
			return "", nil // no link; whether it is there, its reader will see
		}
		seen(p, target)
		return target, nil
	})
	if err != nil {
		return "", pathError("resolve", name, err)
	}
	return plain, nil
}

// check refuses what fs.FS says that names must not be.
func check(op, name string) error {
	if !fs.ValidPath(name) {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return nil
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}
