package doctor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/internal/sysroot"
)

// families are libraries of which a process must have one copy: two have two states,
// and what one gave the other does not know. By how their files' names begin.
var families = []string{"libibverbs.so", "libefa.so", "libmlx5.so", "librdmacm.so", "libfabric.so", "libnccl.so", "librccl.so", "libnccl-net",
	"libcuda.so", "libcudart.so", "libhsa-runtime64.so", "libamdhip64.so", "libze_loader.so", "libucp.so", "libmpi.so"}

// familyOf gives the family of a file; "" is none of interest. Providers of
// libibverbs are apart: libefa.so.1 is a library, libefa-rdmav34.so its provider.
func familyOf(file string) string {
	name := path.Base(file)
	for _, f := range families {
		if strings.HasPrefix(name, f) {
			return f
		}
	}
	if provider, _, ok := strings.Cut(name, "-rdmav"); ok {
		return provider + "-rdmav"
	}
	return ""
}

// mapping is a library in a process.
type mapping struct {
	file    string
	inode   string // with the device, as /proc/PID/maps spells it
	deleted bool   // its file was removed or replaced since
}

// parseMaps gives the files of interest in /proc/PID/maps, each once: "start-end
// perms offset device inode path", and " (deleted)" after the path.
func parseMaps(text string) (all []mapping) {
	seen := map[mapping]bool{}
	for line := range strings.Lines(text) {
		// The path may have blanks: it is what follows the fifth column.
		rest := strings.TrimSuffix(line, "\n")
		var f [5]string
		for i := range f {
			f[i], rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
		}
		file := strings.TrimLeft(rest, " ")
		if !strings.HasPrefix(file, "/") {
			continue
		}
		m := mapping{inode: f[3] + " " + f[4]}
		m.file, m.deleted = strings.CutSuffix(file, " (deleted)")
		if familyOf(m.file) != "" && !seen[m] {
			seen[m] = true
			all = append(all, m)
		}
	}
	return all
}

// cached is an entry of /etc/ld.so.cache: where the loader finds a library by name.
type cached struct {
	name  string // "libibverbs.so.1"
	file  string
	flags uint32 // of which architecture; of one the first entry is taken
}

// parseCache reads /etc/ld.so.cache in the form that glibc has had since 2.2, which
// may follow the older one (elf/dl-cache.h and sysdeps/generic/dl-cache.h of glibc).
func parseCache(b []byte) (all []cached, err error) {
	const magic = "glibc-ld.so.cache1.1"
	const head, entry = 48, 24 // bytes of struct cache_file_new, struct file_entry_new
	at := bytes.Index(b, []byte(magic))
	if at < 0 || len(b)-at < head {
		return nil, errors.New("no cache of glibc's loader")
	}
	b = b[at:]
	// Which byte order it has, it tells itself since 2.33; before, the machine's.
	var order binary.ByteOrder = binary.LittleEndian
	if b[28]&3 == 3 {
		order = binary.BigEndian
	}
	n := order.Uint32(b[len(magic):])
	if uint64(n)*entry+head > uint64(len(b)) {
		return nil, errors.New("it is cut short")
	}
	text := func(at uint32) string {
		if uint64(at) >= uint64(len(b)) {
			return ""
		}
		s, _, _ := bytes.Cut(b[at:], []byte{0})
		return string(s)
	}
	for i := range int(n) {
		e := b[head+i*entry:]
		c := cached{flags: order.Uint32(e), name: text(order.Uint32(e[4:])), file: text(order.Uint32(e[8:]))}
		if familyOf(c.name) != "" && askedFor.MatchString(c.name) {
			all = append(all, c)
		}
	}
	return all, nil
}

// prefixes are folders of vendors' installers, which the loader may or may not know.
var prefixes = []string{"opt/amazon/efa/lib64", "opt/amazon/efa/lib", "opt/amazon/ofi-nccl/lib64", "opt/amazon/ofi-nccl/lib",
	"opt/amazon/ofi-nccl/lib/x86_64-linux-gnu", "opt/aws-ofi-nccl/lib", "usr/local/lib", "usr/local/lib64", "opt/rocm/lib", "usr/local/cuda/compat"}

// askedFor is a name by which programs ask for a library: with the first number,
// libfabric.so.1, and not the libfabric.so.1.30.0 that it leads to. Without one only
// plugins are; else that name is the linker's.
var askedFor = regexp.MustCompile(`^[^.]+\.so\.[0-9]+$|^libnccl-net[^.]*\.so$`)

// copies are the files of a library that a system has, by the name that programs
// ask for.
type copies struct {
	name  string
	first string   // the one that the loader takes; "" if it knows none
	files []string // without links, first first
	extra []string // files that only a vendor's folder has
}

// installed finds the copies of each library, by the loader's cache and in prefixes.
func (s *System) installed() ([]copies, error) {
	const cache = "etc/ld.so.cache"
	b, err := fs.ReadFile(s.Root, cache)
	var entries []cached
	if err == nil {
		entries, err = parseCache(b)
	}
	if err != nil {
		return nil, err
	}
	var all []copies
	of := map[string]int{}
	flags := map[string]uint32{}
	add := func(name, file string, extra bool) {
		plain, err := sysroot.Resolve(s.Root, strings.TrimPrefix(path.Clean(file), "/"), true, func(string, string) {})
		if err != nil {
			return
		}
		if _, err := fs.Stat(s.Root, plain); err != nil {
			return // the cache is older than what is installed
		}
		i, ok := of[name]
		if !ok {
			i = len(all)
			of[name], all = i, append(all, copies{name: name})
		}
		c := &all[i]
		if slices.Contains(c.files, plain) {
			return
		}
		if c.files = append(c.files, plain); extra {
			c.extra = append(c.extra, plain)
		} else if c.first == "" {
			c.first = plain
		}
	}
	for _, e := range entries {
		if strings.Contains(e.file, "/glibc-hwcaps/") {
			continue // the same library, built for newer processors
		}
		if known, ok := flags[e.name]; ok && known != e.flags {
			continue // of another architecture
		}
		flags[e.name] = e.flags
		add(e.name, e.file, false)
	}
	for _, folder := range prefixes {
		files, _ := fs.ReadDir(s.Root, folder)
		for _, f := range files {
			if name := f.Name(); familyOf(name) != "" && askedFor.MatchString(name) {
				add(name, folder+"/"+name, true)
			}
		}
	}
	return all, nil
}
