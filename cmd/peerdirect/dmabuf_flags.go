package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/peerdirect/peerdirect/verbs"
)

// bytesFlag is a number of bytes or an address, of 64 bits: decimal with K, M,
// G or T for powers of 1024, or hexadecimal.
type bytesFlag uint64

func (f *bytesFlag) String() string {
	if *f == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(*f), 10)
}

func (f *bytesFlag) Set(s string) error {
	v, err := parseBytes(s)
	*f = bytesFlag(v)
	return err
}

func (f *bytesFlag) Type() string { return "bytes" }

func parseBytes(s string) (uint64, error) {
	bad := fmt.Errorf("%q is no number of bytes: give 4096, 64K, 1G or 0x1000", s)
	if hex, ok := strings.CutPrefix(strings.ToLower(s), "0x"); ok {
		v, err := strconv.ParseUint(hex, 16, 64)
		if err != nil {
			return 0, bad
		}
		return v, nil
	}
	digits, shift := s, 0
	if n := len(s); n > 1 {
		if i := strings.IndexByte("KMGT", s[n-1]&^0x20); i >= 0 {
			digits, shift = s[:n-1], 10*(i+1)
		}
	}
	v, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || v > math.MaxUint64>>shift {
		return 0, bad
	}
	return v << shift, nil
}

// accessFlag is access bits by name or number.
type accessFlag struct{ bits *uint64 }

var accessByWord = []struct {
	word string
	bit  verbs.Access
}{
	{"local-write", verbs.LocalWrite}, {"remote-write", verbs.RemoteWrite}, {"remote-read", verbs.RemoteRead},
	{"remote-atomic", verbs.RemoteAtomic}, {"mw-bind", verbs.MWBind}, {"zero-based", verbs.ZeroBased},
	{"on-demand", verbs.OnDemand}, {"hugetlb", verbs.HugeTLB}, {"flush-global", verbs.FlushGlobal},
	{"flush-persistent", verbs.FlushPersistent}, {"relaxed-ordering", verbs.RelaxedOrdering},
}

func accessWords() []string {
	var words []string
	for _, a := range accessByWord {
		words = append(words, a.word)
	}
	return words
}

func (f accessFlag) String() string {
	if f.bits == nil || *f.bits == 0 {
		return ""
	}
	var words []string
	rest := *f.bits
	for _, a := range accessByWord {
		if rest&uint64(a.bit) != 0 {
			words, rest = append(words, a.word), rest&^uint64(a.bit)
		}
	}
	if rest != 0 {
		words = append(words, fmt.Sprintf("%#x", rest))
	}
	return strings.Join(words, ",")
}

func (f accessFlag) Set(s string) error {
	*f.bits = 0
	for _, word := range strings.Split(s, ",") {
		if v, err := strconv.ParseUint(word, 0, 64); err == nil {
			*f.bits |= v
			continue
		}
		found := false
		for _, a := range accessByWord {
			if strings.EqualFold(strings.ReplaceAll(word, "_", "-"), a.word) {
				*f.bits, found = *f.bits|uint64(a.bit), true
			}
		}
		if !found {
			return fmt.Errorf("%q is no access; there are %s, and numbers", word, strings.Join(accessWords(), ", "))
		}
	}
	return nil
}

func (f accessFlag) Type() string { return "access" }
