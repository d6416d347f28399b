package ebpfprobes

import (
	"errors"
	"testing"
)

func TestNamespace(t *testing.T) {
	if err := namespaceError("pid:[4026531836]"); err != nil {
		t.Error(err)
	}
	if err := namespaceError("pid:[4026532999]"); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}
