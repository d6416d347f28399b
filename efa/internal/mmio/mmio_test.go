package mmio

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"unsafe"
)

// blocks is n blocks of memory, aligned as the stubs want, between two guards.
func blocks(n int, fill byte) (all, inner []byte) {
	b := make([]byte, (n+3)*Block)
	off := int(-uintptr(unsafe.Pointer(&b[0])) & (Block - 1))
	b = b[off : off+(n+2)*Block]
	for i := range b {
		b[i] = fill
	}
	return b, b[Block : (n+1)*Block]
}

func at(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

func TestCopyMovesWholeBlocksAndNothingElse(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 16, 63} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			_, src := blocks(n+1, 0)
			src = src[:n*Block]
			for i := range src {
				src[i] = byte(i*7 + i/Block + 1)
			}
			for name, f := range map[string]func(dst unsafe.Pointer){
				"Copy":                    func(dst unsafe.Pointer) { Copy(dst, at(src[:n*Block:cap(src)]), n) },
				"Post without a doorbell": func(dst unsafe.Pointer) { Post(dst, at(src[:n*Block:cap(src)]), n, nil, 9) },
			} {
				all, dst := blocks(n, 0xee)
				f(unsafe.Pointer(&all[Block]))
				if !bytes.Equal(dst, src) {
					t.Errorf("%s: the blocks differ", name)
				}
				for i, v := range append(all[:Block:Block], all[(n+1)*Block:]...) {
					if v != 0xee {
						t.Fatalf("%s wrote outside, guard byte %d", name, i)
					}
				}
			}
		})
	}
}

func TestPostAndRingStoreFourBytes(t *testing.T) {
	src := make([]uint64, 8)
	dst := make([]uint64, 8)
	src[7] = 5
	var bell [4]uint32
	Post(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), 1, unsafe.Pointer(&bell[1]), 0x81234567)
	if bell != [4]uint32{1: 0x81234567} || dst[7] != 5 {
		t.Errorf("doorbell %#x, memory %v", bell, dst)
	}
	Ring(unsafe.Pointer(&bell[2]), 0xfedcba98)
	if bell != [4]uint32{1: 0x81234567, 2: 0xfedcba98} {
		t.Errorf("doorbell %#x", bell)
	}
	LoadFence()
}

// The order of stores cannot be seen from this side of the bus, so the text of
// the stubs is held to it: fences where the contract wants them, and stores in
// ascending order.
func TestStubsHaveTheirFencesAndAscendingStores(t *testing.T) {
	for _, arch := range []struct {
		name, fence, store string
		load, bell         string
		step               int
	}{
		{"amd64", `\tSFENCE\n`, `\tMOVQ\t\w+, (\d+)\(DI\)\n`, "", "", 8},
		{"arm64", `\tDSB\t\$0xe\n`, `\tSTP\t\(\w+, \w+\), (\d+)\(R0\)\n`, "DMB\t$0x1", "DMB\t$0x2", 16},
	} {
		text, err := os.ReadFile("mmio_" + arch.name + ".s")
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(string(text), "TEXT ·")
		body := func(name string) string {
			for _, p := range parts {
				if strings.HasPrefix(p, name+"(SB)") {
					return p
				}
			}
			t.Fatalf("%s has no %s", arch.name, name)
			return ""
		}
		fence, store := regexp.MustCompile(arch.fence), regexp.MustCompile(arch.store)
		for name, fences := range map[string]int{"Post": 2, "Copy": 1} {
			b := body(name)
			f, s := fence.FindAllStringIndex(b, -1), store.FindAllStringSubmatchIndex(b, -1)
			if len(f) != fences || len(s) != Block/arch.step {
				t.Fatalf("%s %s: %d fences, %d stores", arch.name, name, len(f), len(s))
			}
			if f[0][0] > s[0][0] || fences == 2 && f[1][0] < s[len(s)-1][0] {
				t.Errorf("%s %s: a fence is out of place", arch.name, name)
			}
			for i, m := range s {
				if b[m[2]:m[3]] != fmt.Sprint(i*arch.step) {
					t.Errorf("%s %s: store %d is to offset %s", arch.name, name, i, b[m[2]:m[3]])
				}
			}
		}
		// amd64 keeps loads in order by itself.
		if arch.load != "" && !strings.Contains(body("LoadFence"), arch.load) || !strings.Contains(body("Ring"), arch.bell) {
			t.Errorf("%s: a barrier is missing", arch.name)
		}
	}
}
