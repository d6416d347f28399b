//go:build lab

package nldev_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/golden"
	"github.com/peerdirect/peerdirect/verbs"
)

// What the documentation shows does what it says, on a device.
func TestTheExampleListsARegionOfThisProcess(t *testing.T) {
	name := os.Getenv("PEERDIRECT_DEVICE")
	if name == "" {
		t.Skip("needs a lab guest with an RDMA device (PEERDIRECT_DEVICE): run make test-lab")
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
	buf, err := verbs.NewBuffer(1234*4096, verbs.BufferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Close()
	mr, err := pd.Register(buf.Bytes(), verbs.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer mr.Close()
	want := fmt.Sprintf("%s\t%d bytes\t", name, 1234*4096)
	if got := golden.Stdout(t, ExampleClient_MRs); !strings.Contains(got, want) {
		t.Errorf("no line begins %q:\n%s", want, got)
	}
}
