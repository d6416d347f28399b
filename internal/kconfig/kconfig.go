// Package kconfig reads the configuration that a kernel was built with, where a
// distribution or the kernel itself shows it.
package kconfig

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// MaxSize bounds a configuration in bytes, which has some 300 KB.
const MaxSize = 4 << 20

// Packed is where a kernel with CONFIG_IKCONFIG_PROC shows its own.
const Packed = "proc/config.gz"

// Paths are where the configuration of a release may be, in a system root, the
// likeliest first; those but Packed are plain text. An odd release has Packed only.
func Paths(release string) []string {
	var paths []string
	if release != "" && !strings.Contains(release, "/") {
		for _, p := range []string{"boot/config-" + release, "lib/modules/" + release + "/config"} {
			if fs.ValidPath(p) {
				paths = append(paths, p)
			}
		}
	}
	return append(paths, Packed)
}

// Read gives the configuration of a release, and the path that it was found at. An
// error names each path and what came of it.
func Read(root fs.FS, release string) (config []byte, at string, err error) {
	var failed []error
	for _, p := range Paths(release) {
		b, err := fs.ReadFile(root, p)
		if err == nil && p == Packed {
			b, err = Unpack(b)
		}
		if err == nil && !looksRight(b) {
			err = errors.New("no kernel configuration")
		}
		if err == nil {
			return b, p, nil
		}
		if e := new(fs.PathError); errors.As(err, &e) {
			err = e.Err
		}
		failed = append(failed, fmt.Errorf("/%s: %w", p, err))
	}
	return nil, "", errors.Join(failed...)
}

// looksRight tells whether a line is an option: a file that was cut to nothing
// would say no to all of them.
func looksRight(config []byte) bool {
	return bytes.HasPrefix(config, []byte("CONFIG_")) || bytes.Contains(config, []byte("\nCONFIG_"))
}

// Unpack takes the compression off what Packed holds.
func Unpack(packed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(z, MaxSize))
}

// Option gives the value of an option, "y", "m", a number or a quoted string, "n" if
// it is not set. ok is false where the configuration does not name it: it is older or
// newer than the option, or lacks what the option depends on.
func Option(config []byte, name string) (value string, ok bool) {
	for line := range bytes.Lines(config) {
		line := bytes.TrimSpace(line)
		if v, ok := bytes.CutPrefix(line, []byte(name+"=")); ok {
			return string(v), true
		}
		if bytes.Equal(line, []byte("# "+name+" is not set")) {
			return "n", true
		}
	}
	return "", false
}

// Direct are the options that the direct path and the looks at it depend on.
var Direct = []string{"CONFIG_PCI", "CONFIG_MODULES", "CONFIG_INFINIBAND", "CONFIG_INFINIBAND_USER_ACCESS", "CONFIG_INFINIBAND_ADDR_TRANS",
	"CONFIG_INFINIBAND_ON_DEMAND_PAGING", "CONFIG_PCI_P2PDMA", "CONFIG_DMA_SHARED_BUFFER", "CONFIG_DMABUF_MOVE_NOTIFY",
	"CONFIG_UDMABUF", "CONFIG_BPF_SYSCALL", "CONFIG_DEBUG_INFO_BTF"}

// Keep leaves of a configuration, which may have a command line and names of keys,
// the options that are in Direct.
func Keep(config []byte) []byte {
	kept := []byte("\n")
	for line := range bytes.Lines(config) {
		name, _, set := strings.Cut(string(bytes.TrimSpace(line)), "=")
		if !set {
			name = strings.TrimSuffix(strings.TrimPrefix(name, "# "), " is not set")
		}
		if slices.Contains(Direct, name) {
			kept = append(kept, line...)
		}
	}
	return kept
}
