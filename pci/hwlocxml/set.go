package hwlocxml

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// maxSet bounds the members of a set; kernels are built for 8,192 processors at most.
const maxSet = 1 << 16

// parseSet reads a bitmap as hwloc prints it: words of 32 bits, the highest first,
// with a comma between and nothing for a zero: "0x00000303,,0x3". An infinite one,
// "0xf...f", has no members that could be told: nil.
func parseSet(text string) ([]int, error) {
	if strings.HasPrefix(text, "0xf...f") {
		return nil, nil
	}
	words := strings.Split(text, ",")
	if len(words) > maxSet/32 {
		return nil, fmt.Errorf("%q is larger than any machine", clip(text))
	}
	set := []int{}
	for i := len(words) - 1; i >= 0; i-- {
		if words[i] == "" && len(words) > 1 {
			continue
		}
		digits, _ := strings.CutPrefix(words[i], "0x")
		word, err := strconv.ParseUint(digits, 16, 32)
		if err != nil {
			return nil, fmt.Errorf("%q is no set such as 0x00ff00ff", clip(text))
		}
		for ; word != 0; word &= word - 1 {
			set = append(set, (len(words)-1-i)*32+bits.TrailingZeros64(word))
		}
	}
	return set, nil
}
