// Package names gives PCI devices the names of their makers and products, from
// pci.ids, the list that pciutils and hwdata bring. It is apart from package pci
// because it reads megabytes and stands on github.com/jaypipes/ghw, which brings
// net/http along; whoever only asks for distances and rails needs neither.
//
// It needs no privilege and no device, keeps nothing open, and builds for Linux.
package names

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"github.com/jaypipes/ghw"
	"github.com/jaypipes/pcidb"
	"golang.org/x/sys/unix"

	_ "github.com/peerdirect/peerdirect/internal/needs/linux"
	"github.com/peerdirect/peerdirect/pci"
)

// namesAt are the usual places of pci.ids, its own updater's first.
var namesAt = []string{
	"/var/lib/pciutils/pci.ids",
	"/usr/share/hwdata/pci.ids",
	"/usr/share/misc/pci.ids",
	"/usr/share/pci.ids",
	"/usr/share/hwdata/pci.ids.gz",
	"/usr/share/misc/pci.ids.gz",
}

// maxNames bounds pci.ids, which has 1.5 MB in 2026.
const maxNames = 64 << 20

// Fill sets VendorName and ProductName of every device of t from pci.ids, plain or
// gzipped; what it does not name stays as it is. An empty path is the first of the
// usual places of this machine that has one, and none is no failure: a Debian
// package (pci.ids) brings it. Nobody else reads t meanwhile.
//
// A file that was asked for and is not there is fs.ErrNotExist. Where reading fails
// half-way, what was read before counts, and the error says so.
func Fill(t *pci.Topology, path string) error {
	f, err := openNames(path)
	if f == nil {
		return err
	}
	defer f.Close()
	excerpt, err := excerpt(t, f)
	if err != nil {
		err = fmt.Errorf("read %s: %w; names it has not shown yet are missing", f.Name(), err)
	}
	names, failed := describer(excerpt)
	if failed != nil {
		return errors.Join(err, fmt.Errorf("names of %s: %w", f.Name(), failed))
	}
	type identity struct {
		vendor, product, subVendor, subProduct uint16
		class                                  uint32
	}
	type pair struct{ vendor, product string }
	told := map[identity]pair{} // of many functions few are not alike
	for _, d := range t.Devices {
		id := identity{d.Vendor, d.Product, d.SubVendor, d.SubProduct, d.Class}
		said, ok := told[id]
		if !ok {
			said.vendor, said.product = describe(names, d)
			told[id] = said
		}
		d.VendorName, d.ProductName = cmp.Or(said.vendor, d.VendorName), cmp.Or(said.product, d.ProductName)
	}
	return err
}

// describe gives what ghw says of a modalias; "" is nothing.
func describe(names *ghw.PCIInfo, d *pci.Device) (vendor, product string) {
	said := names.ParseDevice(d.Address.String(), fmt.Sprintf("pci:v%08Xd%08Xsv%08Xsd%08Xbc%02Xsc%02Xi%02X",
		d.Vendor, d.Product, d.SubVendor, d.SubProduct, uint8(d.Class>>16), uint8(d.Class>>8), uint8(d.Class)))
	if said == nil {
		return "", ""
	}
	if vendor = said.Vendor.Name; vendor == unnamed {
		vendor = ""
	}
	if product = said.Product.Name; product == unnamed {
		product = ""
	}
	return vendor, product
}

// unnamed is what ghw says of what pci.ids lacks.
const unnamed = "unknown"

func openNames(path string) (*os.File, error) {
	if path != "" {
		return os.Open(path)
	}
	for _, at := range namesAt {
		f, err := os.Open(at)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return nil, nil
}

// excerpt gives the lines of pci.ids that name a vendor or product of this
// machine. A cut file or a strange line costs only itself, where ghw's reader
// panics; and to read all of it takes ten times as long as all the rest.
func excerpt(t *pci.Topology, f io.Reader) ([]byte, error) {
	wanted := map[string]map[string]bool{}
	for _, d := range t.Devices {
		vendor := fmt.Sprintf("%04x", d.Vendor)
		if wanted[vendor] == nil {
			wanted[vendor] = map[string]bool{}
		}
		wanted[vendor][fmt.Sprintf("%04x", d.Product)] = true
	}
	plain := bufio.NewReader(f)
	if head, _ := plain.Peek(2); string(head) == "\x1f\x8b" {
		z, err := gzip.NewReader(plain)
		if err != nil {
			return nil, err
		}
		plain = bufio.NewReader(z)
	}
	var out []byte
	var products map[string]bool // of the vendor whose lines these are; nil is none of ours
	lines := bufio.NewReaderSize(io.LimitReader(plain, maxNames), 64<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if err == io.EOF { // what a cut line holds is half a name
			return out, nil
		}
		if err != nil {
			return out, err
		}
		if len(line) == 0 || line[0] == '#' || line[0] == '\t' && (products == nil || line[1] == '\t') {
			continue // as most lines, which is why it is asked first
		}
		switch line := bytes.TrimRight(line, "\r\n"); {
		case len(line) == 0:
		case line[0] == '\t':
			if entry(line[1:]) && products[string(line[1:5])] {
				out = append(append(out, line...), '\n')
			}
		default:
			products = nil
			if entry(line) {
				if products = wanted[string(line[:4])]; products != nil {
					out = append(append(out, line...), '\n')
				}
			}
		}
	}
}

// entry tells a line that gives a number its name: "15b3  Mellanox Technologies".
func entry(line []byte) bool {
	if len(line) < 7 || line[4] != ' ' || line[5] != ' ' {
		return false
	}
	_, err := strconv.ParseUint(string(line[:4]), 16, 16)
	return err == nil
}

// describer makes ghw read the excerpt, and nothing of this machine: its list of
// devices is empty if one of them is strange, and ours is already there.
func describer(excerpt []byte) (info *ghw.PCIInfo, err error) {
	fd, err := unix.MemfdCreate("pci.ids", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "pci.ids")
	defer f.Close()
	if _, err := f.Write(excerpt); err != nil {
		return nil, err
	}
	at, fetch := fmt.Sprintf("/proc/self/fd/%d", fd), false
	db, err := pcidb.New(&pcidb.WithOption{Path: &at, EnableNetworkFetch: &fetch})
	if err != nil {
		return nil, err
	}
	return ghw.PCI(ghw.WithPCIDB(db), ghw.WithChroot("/dev/null"), ghw.WithDisableTopology(), ghw.WithDisableWarnings())
}
