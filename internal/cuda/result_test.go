package cuda

import (
	"errors"
	"io/fs"
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
		{InvalidValue, syscall.EINVAL, "CUDA_ERROR_INVALID_VALUE (1)"},
		{OutOfMemory, syscall.ENOMEM, "CUDA_ERROR_OUT_OF_MEMORY (2)"},
		{StubLibrary, syscall.ENODEV, "CUDA_ERROR_STUB_LIBRARY (34)"},
		{NoDevice, syscall.ENODEV, "CUDA_ERROR_NO_DEVICE (100)"},
		{ContextIsDestroyed, fs.ErrClosed, "CUDA_ERROR_CONTEXT_IS_DESTROYED (709)"},
		{NotPermitted, fs.ErrPermission, "CUDA_ERROR_NOT_PERMITTED (800)"},
		{NotSupported, errors.ErrUnsupported, "CUDA_ERROR_NOT_SUPPORTED (801)"},
		{SystemNotReady, syscall.ENODEV, "CUDA_ERROR_SYSTEM_NOT_READY (802)"},
		{Absent, errors.ErrUnsupported, "not in the libcuda that is loaded"},
	} {
		err := error(&Error{Op: "cuCall", Result: c.result})
		if !errors.Is(err, c.class) || !errors.Is(err, c.result) || err.Error() != "cuCall: "+c.text {
			t.Errorf("%d: %v", c.result, err)
		}
	}
	if text := Result(12345).Error(); !strings.Contains(text, "12345") {
		t.Errorf("an unknown result: %s", text)
	}
	if errors.Is(Result(12345), syscall.EINVAL) {
		t.Error("an unknown result has a class")
	}
}

// TestInitWithoutLibrary: a program starts without the driver, and says what is
// missing.
func TestInitWithoutLibrary(t *testing.T) {
	if _, err := Library(); err == nil {
		t.Skipf("needs a machine without %s", LibraryName)
	}
	if err := Init(); err == nil || !strings.Contains(err.Error(), LibraryName) {
		t.Errorf("got %v", err)
	}
}
