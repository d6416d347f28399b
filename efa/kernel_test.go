//go:build cgo

package efa

import "testing"

func TestAMappingIsFoundByWhereItBegins(t *testing.T) {
	const maps = `55e0c0a00000-55e0c0a21000 rw-p 00000000 00:00 0                          [heap]
7f2d5c000000-7f2d5c002000 r--s 100000000 00:05 345                       /dev/infiniband/uverbs0
7f2d5c002000-7f2d5c003000 -w-s 200000000 00:05 345                       /dev/infiniband/uverbs0
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
`
	for _, c := range []struct {
		at, size uint64
	}{{0x7f2d5c000000, 0x2000}, {0x7f2d5c002000, 0x1000}, {0x55e0c0a00000, 0x21000}, {0xffffffffff600000, 0x1000}} {
		if n, err := mappingAt(maps, c.at); n != c.size || err != nil {
			t.Errorf("at %#x: %#x bytes, %v", c.at, n, err)
		}
	}
	for _, text := range []string{maps, "", "7f2d5c001000 r--s", "zz-7f2d5c001000 r--s\n"} {
		if n, err := mappingAt(text, 0x7f2d5c001000); err == nil {
			t.Errorf("inside a mapping, or in nonsense, begins one of %d bytes", n)
		}
	}
}

// What this machine lacks is said, and can be told apart.
func TestOpeningWithoutADevice(t *testing.T) {
	if names, err := Devices(); err == nil {
		t.Skipf("needs a machine without EFA devices: this one has %v", names)
	}
	_, err := Open("efa_0")
	refused(t, err, ErrNoDevice)
	_, err = Devices()
	refused(t, err, ErrNoDevice)
}
