package pci

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// CPUs is a set of processors, in order. Nil is unknown, empty is none.
type CPUs []int

// maxCPU bounds what a list may name; kernels are built for 8,192 at most.
const maxCPU = 1<<16 - 1

// ParseCPUs reads a list as the kernel prints it: "0-3,8", with strides "0-31:2/8"
// (of every 8 the first 2) as bitmap_parselist takes them. An empty list is no CPU.
func ParseCPUs(s string) (CPUs, error) {
	cpus := CPUs{}
	s = strings.Trim(s, " \t\r\n\x00")
	if s == "" {
		return cpus, nil
	}
	var seen []bool // once the list is out of order: it may name one CPU many times
	for part := range strings.SplitSeq(s, ",") {
		from, to, used, group, err := cpuRange(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("%q is no list of CPUs such as 0-3,8: %w", clip(s), err)
		}
		if seen == nil && len(cpus) > 0 && cpus[len(cpus)-1] >= from {
			seen = make([]bool, maxCPU+1)
			for _, c := range cpus {
				seen[c] = true
			}
		}
		for start := from; start <= to; start += group {
			for c := start; c < start+used && c <= to; c++ {
				if seen == nil {
					cpus = append(cpus, c)
				} else {
					seen[c] = true
				}
			}
		}
	}
	if seen == nil {
		return cpus, nil
	}
	cpus = cpus[:0]
	for c, there := range seen {
		if there {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}

// cpuRange reads N, N-M or N-M:USED/GROUP.
func cpuRange(s string) (from, to, used, group int, err error) {
	s, stride, strided := strings.Cut(s, ":")
	first, last, ranged := strings.Cut(s, "-")
	if from, err = cpuNumber(first); err != nil {
		return 0, 0, 0, 0, err
	}
	to, used, group = from, 1, 1
	if ranged {
		if to, err = cpuNumber(last); err != nil {
			return 0, 0, 0, 0, err
		}
	}
	if to < from {
		return 0, 0, 0, 0, fmt.Errorf("%q ends before it begins", clip(s))
	}
	if strided {
		u, g, ok := strings.Cut(stride, "/")
		if !ok {
			return 0, 0, 0, 0, fmt.Errorf("%q is no stride such as 2/8", clip(stride))
		}
		if used, err = cpuNumber(u); err != nil {
			return 0, 0, 0, 0, err
		}
		if group, err = cpuNumber(g); err != nil {
			return 0, 0, 0, 0, err
		}
		if used < 1 || used > group {
			return 0, 0, 0, 0, fmt.Errorf("%q takes more than its group, or nothing", clip(stride))
		}
	}
	return from, to, used, group, nil
}

func cpuNumber(s string) (int, error) {
	v, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is no number", clip(s))
	}
	if v > maxCPU {
		return 0, errors.New("no kernel has that many CPUs")
	}
	return int(v), nil
}

// String gives the set as the kernel prints it: "0-3,8".
func (c CPUs) String() string {
	var b []byte
	for i := 0; i < len(c); {
		end := i
		for end+1 < len(c) && c[end+1] == c[end]+1 {
			end++
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(c[i]), 10)
		if end > i {
			b = append(b, '-')
			b = strconv.AppendInt(b, int64(c[end]), 10)
		}
		i = end + 1
	}
	return string(b)
}
