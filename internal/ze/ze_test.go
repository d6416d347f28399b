package ze

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

func TestResultsHaveClasses(t *testing.T) {
	for _, c := range []struct {
		result Result
		class  error
		text   string
	}{
		{OutOfDeviceMemory, syscall.ENOMEM, "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY (0x70000003)"},
		{Uninitialized, syscall.ENODEV, "ZE_RESULT_ERROR_UNINITIALIZED (0x78000001)"},
		{UnsupportedFeature, errors.ErrUnsupported, "ZE_RESULT_ERROR_UNSUPPORTED_FEATURE (0x78000003)"},
	} {
		err := error(&Error{Op: "zeCall", Result: c.result})
		if !errors.Is(err, c.class) || !errors.Is(err, c.result) || err.Error() != "zeCall: "+c.text {
			t.Errorf("%#x: %v", uint32(c.result), err)
		}
	}
	if text := Result(0x1234).Error(); !strings.Contains(text, "0x1234") {
		t.Errorf("an unknown result: %s", text)
	}
}

// TestInitWithoutLibrary: a program starts without the loader, and says what is
// missing.
func TestInitWithoutLibrary(t *testing.T) {
	if _, err := Library(); err == nil {
		t.Skipf("needs a machine without %s", LibraryName)
	}
	if err := Init(); err == nil || !strings.Contains(err.Error(), LibraryName) {
		t.Errorf("got %v", err)
	}
}
