//go:build lab

package peer

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/verbs"
)

// labRail opens the guest's device, whatever it is.
func labRail(t *testing.T) transfer.Opener {
	t.Helper()
	name := os.Getenv("PEERDIRECT_DEVICE")
	if name == "" {
		t.Skip("needs a lab guest with an RDMA device: run make test-lab")
	}
	rail, err := transfer.Named(name, transfer.RCOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := resources(t)
	t.Cleanup(func() {
		if live := verbs.Live(); len(live) > 0 {
			t.Errorf("objects are left: %v", live)
		}
		// Some are freed a moment after their process is gone.
		for end := time.Now().Add(5 * time.Second); resources(t) != before && time.Now().Before(end); {
			time.Sleep(50 * time.Millisecond)
		}
		if after := resources(t); after != before {
			t.Errorf("the kernel's objects were %q and are %q", before, after)
		}
	})
	return rail
}

// resources is the kernel's count of objects that programs hold.
func resources(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("rdma", "resource", "show").CombinedOutput()
	if err != nil {
		t.Fatalf("rdma resource show: %v: %s", err, out)
	}
	return strings.Join(regexp.MustCompile(`\b(pd|cq|qp|cm_id|mr|ctx) \d+`).FindAllString(string(out), -1), " ")
}

// efaRail is the guest's first EFA device.
func efaRail(t *testing.T) transfer.Opener {
	t.Helper()
	name, _, _ := strings.Cut(os.Getenv("PEERDIRECT_EFA"), ",")
	if name == "" {
		t.Skip("needs a lab guest with EFA devices: lab run --efa N")
	}
	opener := transfer.EFAOptions{Device: name}
	rail, err := opener.Open(transfer.Want{})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("needs RDMA write, which the efa driver of linux 6.1 lacks: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := rail.Close(); err != nil {
		t.Fatal(err)
	}
	return opener
}

// inOrder checks a result in which nothing is wrong.
func inOrder(t *testing.T, o outcome, transport string) {
	t.Helper()
	if o.err != nil || o.result.Verdict != OK {
		t.Fatalf("%v\n%s", o.err, show(o.result))
	}
	for _, s := range o.result.Steps {
		if s.Verdict != OK && (s.Verdict != Skipped || s.Name != StepRead || o.result.Local.Reads) {
			t.Errorf("%+v", s)
		}
	}
	if got := o.result.Local.Transport; transport != "" && got != transport {
		t.Errorf("over %s", got)
	}
	t.Log(o.result.Role, o.result.Local.String(), o.result.step(StepMTU).Evidence, o.result.step(StepLarge).Summary)
}

// TestLabPath is both sides in one machine.
func TestLabPath(t *testing.T) {
	rail := labRail(t)
	l := listener(t, net.JoinHostPort(os.Getenv("PEERDIRECT_ADDR"), "0"), Options{Rail: rail})
	got := receive(context.Background(), l)
	r, err := Check(context.Background(), l.Addr().String(), Options{Rail: rail, Credentials: known(t), Timeout: patience})
	inOrder(t, outcome{r, err}, "")
	inOrder(t, within(t, time.Minute, got), "")
	if n := r.Local; n.Netdev == "" || n.Address == "" || n.NetdevMTU == 0 || n.Embedded || n.Address != os.Getenv("PEERDIRECT_ADDR") {
		t.Errorf("%+v", n)
	}
}

func TestEFAPath(t *testing.T) {
	rail := efaRail(t)
	l := listener(t, net.JoinHostPort(os.Getenv("PEERDIRECT_ADDR"), "0"), Options{Rail: rail})
	got := receive(context.Background(), l)
	r, err := Check(context.Background(), l.Addr().String(), Options{Rail: rail, Credentials: known(t), Timeout: patience})
	inOrder(t, outcome{r, err}, "EFA SRD")
	inOrder(t, within(t, time.Minute, got), "EFA SRD")
	if r.Local.Embedded {
		t.Errorf("%+v", r.Local)
	}
}
