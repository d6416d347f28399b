//go:build lab

package pages

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/peerdirect/peerdirect/verbs"
)

// TestMain lets the test binary be the other process of a transfer, which can
// be killed and interrupted.
func TestMain(m *testing.M) {
	args := strings.Fields(os.Getenv("PEERDIRECT_TRANSFER_CHILD"))
	if len(args) == 0 {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := other(ctx, args[0], args[1])
	fmt.Println("ended:", err, "objects:", verbs.Live())
	if err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// other is the other process.
func other(ctx context.Context, role, addr string) error {
	o := labOptions()
	o.Tell = func(p Progress) { fmt.Println(p.Stage, p.Bytes) }
	var err error
	if o.Credentials, err = control.Token(labToken); err != nil {
		return err
	}
	n, err := Open(o)
	if err != nil {
		return err
	}
	defer n.Close()
	if role == "to" {
		_, err = n.To(ctx, []string{addr}, without)
		return errors.Join(err, n.Close())
	}
	l, err := n.Listen(ctx, addr, ListenOptions{})
	if err != nil {
		return err
	}
	fmt.Println("listening", l.Addr())
	_, err = l.Receive(ctx)
	return errors.Join(err, l.Close(), n.Close())
}

// without is a transfer without an end, which is ended from outside.
var without = SendOptions{Layout: Layout{PageSize: 16 << 10, Pages: 200, Stride: 2, Seed: 5}, Iterations: maxIterations}

// labOptions are over the guest's device, whatever it is.
func labOptions() Options {
	rail, err := transfer.Named(os.Getenv("PEERDIRECT_DEVICE"), transfer.RCOptions{})
	if err != nil {
		panic(err)
	}
	return Options{Rail: rail, Timeout: 20 * time.Second, Peers: 2}
}

// inLab skips a test outside the lab, and checks afterwards that nothing is
// left, in this process or in the kernel.
func inLab(t *testing.T) (addr string) {
	t.Helper()
	if os.Getenv("PEERDIRECT_DEVICE") == "" {
		t.Skip("needs a lab guest with an RDMA device: run make test-lab")
	}
	before := resources(t)
	t.Cleanup(func() {
		if live := verbs.Live(); len(live) > 0 {
			t.Errorf("objects are left: %v", live)
		}
		// Some are freed a moment after their process is gone.
		deadline := time.Now().Add(5 * time.Second)
		for resources(t) != before && time.Now().Before(deadline) {
			time.Sleep(50 * time.Millisecond)
		}
		if after := resources(t); after != before {
			t.Errorf("the kernel's objects were %q and are %q", before, after)
		}
	})
	return net.JoinHostPort(os.Getenv("PEERDIRECT_ADDR"), "0")
}

// resources is the kernel's count of objects that programs hold.
func resources(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("rdma", "resource", "show").CombinedOutput()
	if err != nil {
		t.Fatalf("rdma resource show: %v: %s", err, out)
	}
	return strings.Join(regexp.MustCompile(`\b(pd|cq|qp|cm_id|mr|ctx) \d+`).FindAllString(string(out), -1), " ")
}

// child starts the other process and gives its lines.
func child(t *testing.T, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PEERDIRECT_TRANSFER_CHILD="+strings.Join(args, " "))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, bufio.NewScanner(out)
}

// await reads lines until one begins with the word, and gives the rest of it.
func await(t *testing.T, lines *bufio.Scanner, word string) string {
	t.Helper()
	rest, ok := find(lines, word)
	if !ok {
		t.Fatalf("the other process ended without %q: %v", word, lines.Err())
	}
	return rest
}

func find(lines *bufio.Scanner, word string) (rest string, ok bool) {
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), word); ok {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

// busy waits until a child is well inside a transfer, then reads its lines no
// more.
func busy(t *testing.T, lines *bufio.Scanner) {
	t.Helper()
	for range 3 {
		await(t, lines, string(StageVerify))
	}
}

// exporter gives an exporter, and skips the test where there is none.
func exporter(t *testing.T, name string) dmabuf.Exporter {
	t.Helper()
	e, err := transfer.MemoryNamed(name)
	if err == nil && e != nil {
		err = e.Available()
	}
	if err != nil {
		t.Skip("needs an exporter: ", err)
	}
	return e
}

// writesByEFA skips where the guest has no EFA device that can write.
func writesByEFA(t *testing.T) {
	t.Helper()
	if os.Getenv("PEERDIRECT_EFA") == "" {
		t.Skip("needs a lab guest with EFA devices: lab run --efa N")
	}
	rail, err := labOptions().Rail.Open(transfer.Want{})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("needs RDMA write, which the efa driver of linux 6.1 lacks: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := rail.Close(); err != nil {
		t.Fatal(err)
	}
}
