package kernel

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
)

// Names names addresses of the kernel's code, by /proc/kallsyms as it was when the first
// was asked for. The zero value is ready.
type Names struct {
	once sync.Once
	all  []named
}

type named struct {
	start        uint64
	name, module string
}

// Of gives the function that an address is in, its module ("vmlinux" is the kernel
// itself) and the offset in it. Without privilege the kernel shows no addresses: then
// nothing is known.
func (n *Names) Of(address uint64) (function, module string, offset uint64) {
	n.once.Do(func() {
		f, err := os.Open("/proc/kallsyms")
		if err != nil {
			return
		}
		defer f.Close()
		n.all = parseNames(f)
	})
	i := sort.Search(len(n.all), func(i int) bool { return n.all[i].start > address }) - 1
	if i < 0 {
		return "", "", 0
	}
	return n.all[i].name, n.all[i].module, address - n.all[i].start
}

// parseNames takes lines of "address type name [module]", functions only.
func parseNames(r io.Reader) (all []named) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f := bytes.Fields(lines.Bytes())
		if len(f) < 3 || len(f[1]) != 1 || f[1][0]|0x20 != 't' {
			continue
		}
		start, err := strconv.ParseUint(string(f[0]), 16, 64)
		if err != nil || start == 0 {
			continue
		}
		module := "vmlinux"
		if len(f) > 3 {
			module = strings.Trim(string(f[3]), "[]")
		}
		all = append(all, named{start, string(f[2]), module})
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].start < all[j].start })
	return all
}
