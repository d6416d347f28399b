//go:build lab

package ebpfprobes_test

import (
	"os"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/golden"
	"github.com/peerdirect/peerdirect/verbs"
)

// What the documentation shows does what it says: it counts this process's
// registrations.
func TestTheExampleCountsRegistrations(t *testing.T) {
	name := os.Getenv("PEERDIRECT_DEVICE")
	if name == "" {
		t.Skip("needs a lab guest with an RDMA device: run make test-lab")
	}
	dev, err := verbs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	defer pd.Close()
	buf, err := verbs.NewBuffer(64<<10, verbs.BufferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Close()
	got := golden.Stdout(t, func() {
		err = registrations(os.Getpid(), func() {
			for range 100 {
				mr, err := pd.Register(buf.Bytes(), verbs.LocalWrite)
				if err != nil {
					t.Fatal(err)
				}
				if err := mr.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
	for _, line := range []string{" " + name + " register host 65536 100\n", " " + name + " deregister host 65536 100\n"} {
		if err != nil || !strings.Contains(got, line) {
			t.Errorf("%q is missing (%v):\n%s", line, err, got)
		}
	}
}
