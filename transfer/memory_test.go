package transfer

import (
	"errors"
	"strings"
	"testing"
)

func TestMemoryByName(t *testing.T) {
	for _, name := range []string{"", HostMemory} {
		if m, err := MemoryNamed(name); m != nil || err != nil || MemoryName(m) != HostMemory {
			t.Errorf("%q is %v, %v", name, m, err)
		}
	}
	if m, err := MemoryNamed("udmabuf"); err != nil || MemoryName(m) != "udmabuf" {
		t.Errorf("%v, %v", m, err)
	}
	if m, err := MemoryNamed("nosuch:1"); !errors.Is(err, errors.ErrUnsupported) || m != nil || !strings.Contains(err.Error(), "udmabuf") {
		t.Errorf("%v, %v", m, err)
	}
}
