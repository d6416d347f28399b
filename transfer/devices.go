package transfer

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/verbs"
)

// EFAName stands for all EFA devices of the machine where [Named] takes names.
const EFAName = "efa"

const classFolder = "sys/class/infiniband"

// HasDevices tells whether the kernel has an RDMA device of any kind. root is a
// machine's root folder, os.DirFS("/") for this one.
func HasDevices(root fs.FS) bool {
	list, _ := fs.ReadDir(root, classFolder)
	return len(list) > 0
}

// vendorAmazon is the PCI vendor of EFA devices, and of no other RDMA device.
const vendorAmazon = "0x1d0f"

func isEFA(root fs.FS, name string) bool {
	vendor, err := fs.ReadFile(root, path.Join(classFolder, name, "device/vendor"))
	return err == nil && strings.TrimSpace(string(vendor)) == vendorAmazon
}

// efaDevices lists the machine's EFA devices in the order of their numbers.
func efaDevices(root fs.FS) (names []string) {
	list, _ := fs.ReadDir(root, classFolder)
	for _, d := range list {
		if isEFA(root, d.Name()) {
			names = append(names, d.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b) // efa_9 is before efa_10
		}
		return strings.Compare(a, b)
	})
	return names
}

// Named gives the opener of this machine's devices by their names: one, several
// of one kind with commas between them, [EFAName] for all of EFA, or none for
// the machine's only device. The options count for devices that are not EFA.
func Named(names string, rc RCOptions) (Opener, error) { return namedIn(os.DirFS("/"), names, rc) }

func namedIn(root fs.FS, names string, rc RCOptions) (Opener, error) {
	list := strings.Split(names, ",")
	switch names {
	case "":
		all, _ := fs.ReadDir(root, classFolder)
		if len(all) != 1 || !isEFA(root, all[0].Name()) {
			return rc, nil // which says what is wrong if there is not one
		}
		list = []string{all[0].Name()}
	case EFAName:
		if list = efaDevices(root); len(list) == 0 {
			return nil, fmt.Errorf("no EFA device on this machine: load the driver with modprobe efa, or use --device %s: %w", EmbeddedName, verbs.ErrNoDevice)
		}
	}
	var nics []Opener
	for i, name := range list {
		switch {
		case name == "" || slices.Contains(list[:i], name):
			return nil, &OptionError{Option: "device", Err: fmt.Errorf("%q names a device twice, or none", names)}
		case isEFA(root, name):
			nics = append(nics, EFAOptions{Device: name})
		default:
			o := rc
			o.Device = name
			nics = append(nics, o)
		}
	}
	return Several(nics...)
}
