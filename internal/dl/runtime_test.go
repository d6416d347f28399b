package dl

import (
	"errors"
	"testing"
	"unsafe"
)

// TestRuntime: a library is loaded once and started once, but tried again where it
// did not start.
func TestRuntime(t *testing.T) {
	loads, starts, broken := 0, 0, errors.New("no device")
	r := &Runtime{Name: "libc.so.6", Load: func(handle unsafe.Pointer) string {
		loads++
		return ""
	}, Start: func() error {
		if starts++; starts == 1 {
			return broken
		}
		return nil
	}}
	if err := r.Init(); !errors.Is(err, broken) {
		t.Errorf("the first start: %v", err)
	}
	for range 2 {
		if err := r.Init(); err != nil {
			t.Error(err)
		}
	}
	if lib, err := r.Library(); err != nil || lib.Symbol("malloc") == nil {
		t.Errorf("%v, %v", lib, err)
	}
	if loads != 1 || starts != 2 {
		t.Errorf("%d loads, %d starts", loads, starts)
	}
	start := func() error { t.Error("started what is not there"); return nil }
	absent := &Runtime{Name: "libabsent.so.1", Start: start}
	if err := absent.Init(); !errors.As(err, new(*NotFoundError)) {
		t.Error(err)
	}
	old := &Runtime{Name: "libc.so.6", Load: func(unsafe.Pointer) string { return "cuNothing" }, Start: start}
	var tooOld *TooOldError
	if err := old.Init(); !errors.As(err, &tooOld) || tooOld.Missing != "cuNothing" || tooOld.Path == "" {
		t.Error(err)
	}
}
