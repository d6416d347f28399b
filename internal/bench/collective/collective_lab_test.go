//go:build lab

package collective

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/peerdirect/peerdirect/verbs"
)

// TestTwoNodesCollective runs on all of several machines with an RDMA device.
func TestTwoNodesCollective(t *testing.T) {
	device := os.Getenv("PEERDIRECT_DEVICE")
	if device == "" {
		t.Skip("needs a lab guest with an RDMA device: make test-lab")
	}
	labCollective(t, transfer.RCOptions{Device: device}, "")
}

// TestTwoNodesEFACollective is that over all EFA devices of the machines, with host
// memory, a dma-buf of the kernel's, and an accelerator's memory.
func TestTwoNodesEFACollective(t *testing.T) {
	names := os.Getenv("PEERDIRECT_EFA")
	if names == "" {
		t.Skip("needs a lab guest with EFA devices: lab run --efa N")
	}
	rails, err := transfer.Named(names, transfer.RCOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rail, err := rails.Open(transfer.Want{})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("needs RDMA write, which the efa driver of linux 6.1 lacks: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := rail.Close(); err != nil {
		t.Fatal(err)
	}
	labCollective(t, rails, "")
	t.Run("udmabuf", func(t *testing.T) { labCollective(t, rails, "udmabuf") })
	if a := os.Getenv("PEERDIRECT_ACCELERATORS"); a != "" {
		first, _, _ := strings.Cut(names, ",") // the accelerator's: it reaches no NIC of another switch
		t.Run("accelerator", func(t *testing.T) {
			labCollective(t, transfer.EFAOptions{Device: first}, strings.Split(a, ",")[0])
		})
	}
}

// labCollective takes this machine's part, in memory of an exporter if one is named.
// Every machine of a run has the same exporters, so all skip or none does.
func labCollective(t *testing.T, rails transfer.Opener, memory string) {
	t.Helper()
	nodes, _ := strconv.Atoi(os.Getenv("PEERDIRECT_NODES"))
	if nodes < 2 {
		t.Skip("needs several machines: lab run --nodes 2")
	}
	t.Cleanup(func() {
		if v, e, d := verbs.Live(), efa.Live(), dmabuf.Live(); len(v)+len(e)+len(d) > 0 {
			t.Errorf("objects are left: %v %v %v", v, e, d)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	p := Place{Rails: rails, Wait: 3 * time.Minute}
	var err error
	if p.Rank, err = strconv.Atoi(os.Getenv("PEERDIRECT_NODE")); err != nil {
		t.Fatal(err)
	}
	for _, addr := range strings.Split(os.Getenv("PEERDIRECT_ADDRS"), ",") {
		p.Peers = append(p.Peers, net.JoinHostPort(addr, "18632"))
	}
	if p.Credentials, err = control.Token("the lab's own, and no secret"); err != nil {
		t.Fatal(err)
	}
	if p.Memory, err = transfer.MemoryNamed(memory); err != nil {
		t.Fatal(err)
	}
	if p.Memory != nil {
		if err := p.Memory.Available(); err != nil {
			t.Skip("needs an exporter: ", err)
		}
	}
	begun := time.Now()
	r, err := Run(ctx, Options{Sizes: []uint64{1000, 64 << 10, 2 << 20}, Rounds: 1, Duration: 5 * time.Millisecond, Timeout: time.Minute,
		Tell: func(p Progress) { t.Logf("%v: %s", time.Since(begun).Round(time.Millisecond), p.What) }}, p)
	switch {
	case p.Memory != nil && errors.Is(err, errors.ErrUnsupported):
		t.Skip("needs another kernel: ", err)
	case err != nil:
		t.Fatalf("node %d: %v", p.Rank, err)
	case p.Rank > 0:
		return
	}
	if c := r.Conditions; len(r.Measurements) != 2*3*4*len(c.Nodes) || c.Embedded || !c.Verified || c.Memory[nodes-1] != memoryName(p.Memory) {
		t.Errorf("%d measurements: %+v", len(r.Measurements), c)
	}
	if len(r.Hops) != nodes || len(r.Rails) != nodes*rails.NICs() {
		t.Errorf("%+v %+v", r.Hops, r.Rails)
	}
	var text bytes.Buffer
	if err := Text(&text, r); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", &text)
}
