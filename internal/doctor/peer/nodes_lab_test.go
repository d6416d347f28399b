//go:build lab

package peer

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
)

// nodes runs tests between two machines: node 0 is the other side of as many as node 1
// does, by check, one after another.
func nodes(t *testing.T, rail transfer.Opener, port string, tests int, done func(outcome), check func(test func() outcome)) {
	t.Helper()
	if os.Getenv("PEERDIRECT_NODES") != "2" {
		t.Skip("needs two machines: run make test-lab")
	}
	at := net.JoinHostPort(strings.Split(os.Getenv("PEERDIRECT_ADDRS"), ",")[0], port)
	o := Options{Rail: rail, Credentials: known(t), Timeout: 30 * time.Second}
	if os.Getenv("PEERDIRECT_NODE") == "0" {
		l := listener(t, at, o)
		for range tests {
			done(within(t, 3*time.Minute, receive(context.Background(), l)))
		}
		return
	}
	check(func() outcome {
		for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
			r, err := Check(context.Background(), at, o)
			// The other machine may not be as far: it listens a moment later.
			if r.Failed != StepReach || time.Now().After(end) {
				return outcome{r, err}
			}
		}
	})
}

func TestTwoNodesPath(t *testing.T) {
	rail := labRail(t)
	nodes(t, rail, DefaultPort, 1, func(o outcome) { inOrder(t, o, "") }, func(test func() outcome) {
		o := test()
		inOrder(t, o, "")
		if e := strings.Join(o.result.step(StepMTU).Evidence, "\n"); strings.Count(e, "bytes pass from") != 2 {
			t.Errorf("the MTU was not probed: %s", e)
		}
	})
}

func TestTwoNodesEFAPath(t *testing.T) {
	nodes(t, efaRail(t), DefaultPort, 1, func(o outcome) { inOrder(t, o, "EFA SRD") }, func(test func() outcome) { inOrder(t, test(), "EFA SRD") })
}

// shell runs a command, which must work.
func shell(t *testing.T, line string) {
	t.Helper()
	if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
}

// TestTwoNodesMTU: interfaces of two MTUs, a way that loses large packets, and one that
// loses only the NICs' large packets. Node 1 makes the faults, on its own interface.
func TestTwoNodesMTU(t *testing.T) {
	rail := labRail(t)
	opened, err := rail.Open(transfer.Want{})
	if err != nil {
		t.Fatal(err)
	}
	nic := describe(&Options{Rail: rail, Root: os.DirFS("/")}, opened.Info())
	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
	overTCP := nic.Transport == transfer.IWARP
	tests := 3
	if overTCP {
		tests = 2 // its packets are TCP's, of no port that can be told
	}
	var seen []string
	nodes(t, rail, "18634", tests, func(o outcome) { seen = append(seen, string(o.result.Verdict)+" "+string(o.result.Failed)) }, func(test func() outcome) {
		shell(t, "ip link set dev "+nic.Netdev+" mtu 1000")
		o := test()
		shell(t, fmt.Sprintf("ip link set dev %s mtu %d", nic.Netdev, nic.NetdevMTU))
		if st := o.result.step(StepMTU); o.err != nil || o.result.Verdict != Warn || st.Verdict != Warn || !strings.Contains(st.Remedy, "1000") {
			t.Errorf("two MTUs: %v\n%s", o.err, show(o.result))
		}
		// A policer's mtu is the largest packet that it lets pass, with its header.
		police := "tc qdisc add dev " + nic.Netdev + " clsact; tc filter add dev " + nic.Netdev + " egress protocol ip u32 match "
		const drop = " police rate 10gbit burst 10m mtu 800 drop"
		shell(t, police+"ip protocol 17 0xff"+drop)
		o = test()
		shell(t, "tc qdisc del dev "+nic.Netdev+" clsact")
		st := o.result.step(StepMTU)
		want := Fail
		if overTCP {
			want = Warn // only probes are lost: the rest is in order
		}
		if st.Verdict != want || o.result.Verdict != want || !strings.Contains(st.Summary, "do not pass") || (o.err == nil) != overTCP || (o.result.Failed == StepMTU) == overTCP {
			t.Errorf("large packets are lost: %v\n%s", o.err, show(o.result))
		}
		t.Log(st.Summary)
		if overTCP {
			return
		}
		shell(t, police+"ip dport 4791 0xffff"+drop)
		o = test()
		shell(t, "tc qdisc del dev "+nic.Netdev+" clsact")
		t.Log(o.err, o.result.step(StepLarge))
		if o.err == nil || o.result.Failed != StepLarge {
			t.Errorf("the NICs' large packets are lost: %v", o.err)
		}
	})
	if os.Getenv("PEERDIRECT_NODE") == "0" {
		t.Log(seen)
	}
}
