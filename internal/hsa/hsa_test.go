package hsa

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

func TestStatusesHaveClasses(t *testing.T) {
	for _, c := range []struct {
		status Status
		class  error
		text   string
	}{
		{InvalidAllocation, syscall.EINVAL, "HSA_STATUS_ERROR_INVALID_ALLOCATION (0x1003)"},
		{InvalidAgent, errors.ErrUnsupported, "HSA_STATUS_ERROR_INVALID_AGENT (0x1004)"},
		{OutOfResources, syscall.ENOMEM, "HSA_STATUS_ERROR_OUT_OF_RESOURCES (0x1008)"},
	} {
		err := error(&Error{Op: "hsa_call", Status: c.status})
		if !errors.Is(err, c.class) || !errors.Is(err, c.status) || err.Error() != "hsa_call: "+c.text {
			t.Errorf("%#x: %v", int(c.status), err)
		}
	}
	if text := Status(0x7777).Error(); !strings.Contains(text, "0x7777") {
		t.Errorf("an unknown status: %s", text)
	}
}

// TestInitWithoutLibrary: a program starts without the runtime, and says what is
// missing.
func TestInitWithoutLibrary(t *testing.T) {
	if _, err := Library(); err == nil {
		t.Skipf("needs a machine without %s", LibraryName)
	}
	if err := Init(); err == nil || !strings.Contains(err.Error(), LibraryName) {
		t.Errorf("got %v", err)
	}
}
