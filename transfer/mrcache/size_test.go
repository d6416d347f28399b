package mrcache

import (
	"testing"
	"unsafe"
)

// Lookups mostly wait for cache lines of 64 bytes.
func TestWhatALookupReadsIsOnFewCacheLines(t *testing.T) {
	var e entry
	if unsafe.Sizeof(e) != 128 || unsafe.Offsetof(e.rail)+unsafe.Sizeof(e.rail) > 64 {
		t.Errorf("an entry has %d bytes, the first part ends at %d", unsafe.Sizeof(e), unsafe.Offsetof(e.rail)+unsafe.Sizeof(e.rail))
	}
	if n := unsafe.Sizeof(bag1{}); n > 64 {
		t.Errorf("a list of one has %d bytes", n)
	}
}
