package lab

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Layer is a tree of programs that a run lays over its kernel's root: what some
// runs want and would make every root larger. It is a root of its own without a
// kernel, so one layer serves every kernel.
type Layer struct {
	Name string

	about    string
	packages []string
	source   []string // releases whose source packages the hook may fetch
	hook     string
}

//go:embed recipe/acceptance.sh
var acceptanceScript string

// Layers lists what [Options.Layer] can be.
var Layers = []Layer{
	{
		Name:  "acceptance",
		about: "upstream's test suites for EFA",
		packages: []string{
			// To build the suites from their source packages.
			"gcc", "make", "libc6-dev", "cmake", "ninja-build", "pkgconf",
			"cython3", "python3-dev", "xz-utils", "libnl-3-dev", "libnl-route-3-dev", "libudev-dev",
			"libibverbs-dev", "libfabric-dev", "autoconf", "automake", "libtool",
			// To run them. fabtests reaches its two nodes through ssh.
			"rdma-core", "ibverbs-utils", "ibverbs-providers", "perftest", "libfabric-bin",
			"python3", "iproute2", "procps", "openssh-client", "openssh-server",
		},
		// rdma-core's EFA suite is younger than the release.
		source: []string{"trixie", "forky"},
		hook:   acceptanceScript,
	},
}

// LayerByName finds a layer by the name a user gave; "" is the layer of no
// programs.
func LayerByName(name string) (Layer, error) {
	if name == "" {
		return Layer{}, nil
	}
	i := slices.IndexFunc(Layers, func(l Layer) bool { return l.Name == name })
	if i < 0 {
		return Layer{}, fmt.Errorf("no layer %q in the lab: choose one of %s", name, strings.Join(LayerNames(), ", "))
	}
	return Layers[i], nil
}

// LayerNames lists the names that [LayerByName] knows.
func LayerNames() []string {
	var names []string
	for _, l := range Layers {
		names = append(names, l.Name)
	}
	return names
}

// sources gives the lines of the layer's sources.list: the default kernel's,
// so that a library in both the layer and the root is of one version, and those
// of source packages. A release to come says until when its index is valid, which
// a mirror that keeps one day's state outlives; the signature is checked all the
// same.
func (l Layer) sources(base Kernel, mirror string) []string {
	s := base.sources(mirror)
	for _, release := range l.source {
		options := ""
		if release != base.release {
			options = "[check-valid-until=no] "
		}
		s = append(s, fmt.Sprintf("deb-src %s%s %s main", options, mirror, release))
	}
	return s
}

func (l Layer) entryName(base Kernel) string {
	h := sha256.New()
	fmt.Fprintln(h, recipeVersion, l.packages, l.sources(base, "MIRROR"), base.pin(), mmdebstrapOptions)
	io.WriteString(h, l.hook)
	return "layer-" + l.Name + "-" + hex.EncodeToString(h.Sum(nil))[:12]
}

// BuildLayer makes a layer unless the cache has it, and gives its folder. It
// needs what [Build] needs, and takes a few minutes.
func BuildLayer(ctx context.Context, l Layer, log io.Writer) (dir string, err error) {
	e, err := openLayer(ctx, l, log)
	if err != nil {
		return "", err
	}
	return e.dir, e.Close()
}

func openLayer(ctx context.Context, l Layer, log io.Writer) (*entry, error) {
	base, err := KernelBySeries(DefaultKernel)
	if err != nil {
		return nil, err
	}
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	wait := func() { fmt.Fprintf(log, "lab: waiting for another process that builds the layer %s\n", l.Name) }
	e, err := acquire(ctx, cache, l.entryName(base), wait, func(dir string, lock *os.File) error {
		start := time.Now()
		mirror, err := hostMirror(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(log, "lab: building the layer %s, %s; once, a few minutes\n", l.Name, l.about)
		b := bootstrap{
			release: base.release, packages: l.packages, sources: l.sources(base, mirror), pin: base.pin(),
			hook: l.hook,
		}
		if err := b.run(ctx, filepath.Join(dir, "tree"), lock, log); err != nil {
			return err
		}
		fmt.Fprintf(log, "lab: the layer %s is built, %.0f s\n", l.Name, time.Since(start).Seconds())
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("the lab's layer %s: %w", l.Name, err)
	}
	return e, nil
}
