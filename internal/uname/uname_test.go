package uname

import (
	"os"
	"strings"
	"testing"
)

func TestRelease(t *testing.T) {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Skip("needs /proc: ", err)
	}
	if got, want := Release(), strings.TrimSpace(string(b)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
