package kernel

import (
	"strconv"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	var n Names
	n.once.Do(func() {
		n.all = parseNames(strings.NewReader(`ffffffff81000000 T _text
ffffffffc0000100 t uverbs_write	[ib_uverbs]
ffffffff81000100 t second
ffffffff81000180 D data
0000000000000000 T hidden
broken
`))
	})
	for address, want := range map[uint64]string{
		0x1000:             "  0",
		0xffffffff81000010: "_text vmlinux 16",
		0xffffffff81000190: "second vmlinux 144",
		0xffffffffc0000104: "uverbs_write ib_uverbs 4",
	} {
		function, module, offset := n.Of(address)
		if got := strings.Join([]string{function, module, strconv.FormatUint(offset, 10)}, " "); got != want {
			t.Errorf("%#x: %q, want %q", address, got, want)
		}
	}
}
