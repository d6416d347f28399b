package pci

import (
	"errors"
	"fmt"
	"strings"
)

// Flags of a resource (include/linux/ioport.h).
const (
	resourceIO       = 1 << 8
	resourceMemory   = 1 << 9
	resourcePrefetch = 1 << 13
	resourceMemory64 = 1 << 20
)

// parseBARs reads the file resource: a line for each region with its start, end and
// flags. The first six are the base address registers; then come the ROM, those of
// virtual functions and the windows of a bridge. What could be read comes with the
// error.
func parseBARs(s string) (bars []BAR, err error) {
	index := 0
	for line := range strings.SplitSeq(s, "\n") {
		if index == 6 || line == "" {
			break
		}
		bar, used, e := parseBAR(line)
		if e != nil && err == nil {
			err = fmt.Errorf("region %d: %w", index, e)
		}
		if used {
			bar.Index = index
			bars = append(bars, bar)
		}
		index++
	}
	return bars, err
}

func parseBAR(line string) (bar BAR, used bool, err error) {
	var v [3]uint64 // start, end, flags
	n := 0
	for f := range strings.FieldsSeq(line) {
		number, ok := hexNumber(strings.TrimPrefix(f, "0x"))
		if !ok || n == len(v) {
			return bar, false, fmt.Errorf("%q is no start, end and flags", clip(line))
		}
		v[n] = number
		n++
	}
	if n != len(v) {
		return bar, false, fmt.Errorf("%q is no start, end and flags", clip(line))
	}
	flags := v[2]
	if flags&(resourceIO|resourceMemory) == 0 {
		return bar, false, nil
	}
	if v[1] < v[0] {
		if v[0]-v[1] == 1 { // the kernel's way to say that it is empty
			return bar, false, nil
		}
		return bar, false, errors.New("it ends before it begins")
	}
	size := v[1] - v[0] + 1
	if size == 0 {
		return bar, false, errors.New("it is all there is")
	}
	return BAR{
		Size: size, Memory: flags&resourceMemory != 0,
		Prefetchable: flags&resourcePrefetch != 0, Width64: flags&resourceMemory64 != 0,
	}, true, nil
}
