package pci

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"

	"github.com/peerdirect/peerdirect/internal/kconfig"
)

// p2pdma tells whether the kernel is built with CONFIG_PCI_P2PDMA: by memory that
// is published, else by its configuration, where a distribution or the kernel itself
// shows it.
func (r *reader) p2pdma() Tri {
	for _, d := range r.t.Devices {
		if d.PeerMem == Yes {
			return Yes
		}
	}
	release := r.t.Platform.Kernel
	if name := "boot/config-" + release; release != "" && !strings.Contains(release, "/") && fs.ValidPath(name) {
		if text, ok := r.bytes(name, kconfig.MaxSize/4); ok {
			if built := optionP2PDMA(text); built != Unknown {
				return built
			}
		}
	}
	b, ok := r.bytes(kconfig.Packed, kconfig.MaxSize/4)
	if !ok {
		return Unknown
	}
	b, err := kconfig.Unpack(b)
	if err != nil {
		r.fail("read", kconfig.Packed, errors.Join(errors.New("no kernel configuration"), err))
		return Unknown
	}
	return optionP2PDMA(b)
}

// optionP2PDMA finds the option in a kernel's configuration. One that has PCI and
// does not name it, lacks it.
func optionP2PDMA(config []byte) Tri {
	has := func(line string) bool { return bytes.Contains(config, []byte("\n"+line+"\n")) }
	switch {
	case has("CONFIG_PCI_P2PDMA=y"):
		return Yes
	case has("# CONFIG_PCI_P2PDMA is not set"), has("CONFIG_PCI=y"):
		return No
	}
	return Unknown
}
