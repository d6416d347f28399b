//go:build lab

package rdmacm_test

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/nldev"
	"github.com/peerdirect/peerdirect/verbs/rdmacm"
)

const pieceSize = 4096

// machine is a device with what queue pairs need, and the address of its
// interface.
type machine struct {
	t    *testing.T
	dev  *verbs.Device
	pd   *verbs.PD
	cq   *verbs.CQ
	buf  *verbs.Buffer
	mr   *verbs.MR
	addr netip.Addr
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	name, addr := os.Getenv("PEERDIRECT_DEVICE"), os.Getenv("PEERDIRECT_ADDR")
	if name == "" || addr == "" {
		t.Skip("needs a lab guest with a device on its link (PEERDIRECT_DEVICE, PEERDIRECT_ADDR): run make test-lab")
	}
	if out, err := exec.Command("modprobe", "rdma_ucm").CombinedOutput(); err != nil {
		t.Fatalf("modprobe rdma_ucm: %v: %s", err, out)
	}
	m := &machine{t: t}
	prefix, err := netip.ParsePrefix(addr)
	m.addr = prefix.Addr()
	if err != nil {
		m.addr = netip.MustParseAddr(addr)
	}
	m.dev, err = verbs.Open(name)
	m.check(err)
	t.Cleanup(func() { m.check(m.dev.Close()) })
	m.pd, err = m.dev.AllocPD()
	m.check(err)
	t.Cleanup(func() { m.check(m.pd.Close()) })
	m.cq, err = m.dev.CreateCQ(verbs.CQOptions{})
	m.check(err)
	t.Cleanup(func() { m.check(m.cq.Close()) })
	m.buf, err = verbs.NewBuffer(64*pieceSize, verbs.BufferOptions{})
	m.check(err)
	t.Cleanup(func() { m.check(m.buf.Close()) })
	m.mr, err = m.pd.Register(m.buf.Bytes(), verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	m.check(err)
	t.Cleanup(func() { m.check(m.mr.Close()) })
	return m
}

func (m *machine) check(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) rc() *verbs.RC {
	m.t.Helper()
	rc, err := m.pd.CreateRC(verbs.RCOptions{CQ: m.cq, MaxSend: 8, MaxRecv: 8})
	m.check(err)
	return rc
}

// modify moves a queue pair with the connection manager's attributes.
func modify(rc *verbs.RC) func(rdmacm.QPAttr) error {
	return func(a rdmacm.QPAttr) error {
		return rc.Modify(verbs.QPAttr{
			State: verbs.QPState(a.State), PathMTU: verbs.MTU(a.PathMTU), RQPSN: a.RQPSN, SQPSN: a.SQPSN,
			DestQPN: a.DestQPN, Access: verbs.Access(a.Access) | verbs.RemoteWrite | verbs.RemoteRead,
			Route: verbs.Route{
				Port: int(a.AH.Port), DGID: verbs.GID(a.AH.DGID), SGIDIndex: int(a.AH.SGIDIndex), Global: a.AH.Global,
				FlowLabel: a.AH.FlowLabel, HopLimit: a.AH.HopLimit, TrafficClass: a.AH.TrafficClass,
				DLID: a.AH.DLID, SL: a.AH.SL, SrcPathBits: a.AH.SrcPathBits, StaticRate: a.AH.StaticRate,
			},
			PKeyIndex: int(a.PKeyIndex), MaxRDAtomic: a.MaxRDAtomic, MaxDestRDAtomic: a.MaxDestRDAtomic,
			MinRNRTimer: a.MinRNRTimer, Port: int(a.Port), Timeout: a.Timeout, RetryCount: a.RetryCount, RNRRetry: a.RNRRetry,
		}, verbs.AttrMask(a.Mask))
	}
}

// left fails the test when the kernel still has connection ids of this process,
// or the process more descriptors than before.
func (m *machine) watch() func() {
	m.t.Helper()
	before := descriptors(m.t)
	return func() {
		m.t.Helper()
		c, err := nldev.Open()
		m.check(err)
		var ids []nldev.CMID
		// What a cancelled dial left to the kernel ends on its time.
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if ids, err = c.CMIDs(m.t.Context(), nldev.Filter{Device: m.dev.Name()}); err != nil || len(ids) == 0 {
				break
			}
		}
		m.check(err)
		m.check(c.Close())
		if len(ids) != 0 {
			m.t.Errorf("%d connection ids are left: %+v", len(ids), ids)
		}
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end) && descriptors(m.t) > before; {
			time.Sleep(20 * time.Millisecond)
		}
		if after := descriptors(m.t); after > before {
			m.t.Errorf("%d descriptors before, %d after", before, after)
		}
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func (m *machine) listen(ctx context.Context) *rdmacm.Listener {
	m.t.Helper()
	l, err := rdmacm.Listen(ctx, netip.AddrPortFrom(m.addr, 0))
	m.check(err)
	return l
}

type side struct {
	rc   *verbs.RC
	conn *rdmacm.Conn
}

func (m *machine) pair(ctx context.Context, l *rdmacm.Listener, private string) (active, passive side) {
	m.t.Helper()
	active.rc, passive.rc = m.rc(), m.rc()
	accepted := make(chan error, 1)
	go func() {
		accepted <- func() error {
			req, err := l.Accept(ctx)
			if err != nil {
				return err
			}
			if got := string(bytes.TrimRight(req.Private, "\x00")); got != private {
				return fmt.Errorf("private data %q, want %q", got, private)
			}
			passive.conn, err = req.Accept(ctx, rdmacm.Params{
				QPN: passive.rc.QPN(), ResponderResources: 1, InitiatorDepth: 1,
				Private: []byte("back"), Modify: modify(passive.rc),
			})
			return err
		}()
	}()
	var err error
	active.conn, err = rdmacm.Dial(ctx, m.addr, l.Addr(), rdmacm.Params{
		QPN: active.rc.QPN(), ResponderResources: 1, InitiatorDepth: 1,
		Private: []byte(private), Modify: modify(active.rc),
	})
	if err != nil {
		m.t.Error(err)
	}
	if err := <-accepted; err != nil {
		m.t.Error(err)
	}
	if m.t.Failed() {
		m.t.FailNow()
	}
	if got := string(bytes.TrimRight(active.conn.Peer().Private, "\x00")); got != "back" {
		m.t.Errorf("the peer's private data is %q", got)
	}
	if index := m.dev.Info().Index; index >= 0 && active.conn.Device().Index != index {
		m.t.Errorf("%v, want the index of %s, %d", active.conn.Device(), m.dev.Name(), index)
	}
	return active, passive
}

func (m *machine) await(ctx context.Context, n int) {
	m.t.Helper()
	out := make([]verbs.Completion, 16)
	for n > 0 {
		got, err := m.cq.Poll(out)
		m.check(err)
		for i := range got {
			m.check(out[i].Err())
		}
		n -= got
		if ctx.Err() != nil {
			m.t.Fatalf("%d completions are missing", n)
		}
		runtime.Gosched()
	}
}

// write and send, from one side to the other.
func (m *machine) move(ctx context.Context, from, to *verbs.RC, round int) {
	m.t.Helper()
	mem := m.buf.Bytes()
	src, dst, msg := uint64(0), uint64(pieceSize), uint64(2*pieceSize)
	for i := range mem[:pieceSize] {
		mem[i] = byte(i*7 + round)
	}
	recv := to.RecvBatch()
	defer recv.Close()
	recv.Recv(m.mr.At(msg, pieceSize), 1)
	m.check(recv.Post())
	send := from.Batch()
	defer send.Close()
	send.Write(m.mr.At(src, pieceSize), m.mr.Remote().At(dst), 2)
	send.Send(m.mr.At(src, pieceSize), 3)
	m.check(send.Post())
	m.await(ctx, 3)
	if !bytes.Equal(mem[:pieceSize], mem[dst:dst+pieceSize]) || !bytes.Equal(mem[:pieceSize], mem[msg:msg+pieceSize]) {
		m.t.Fatal("what arrived is not what was sent")
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
