//go:build lab

package verbs

import (
	"bytes"
	"errors"
	"net"
	"testing"
)

const testQKey = 0x11223344

// datagrams is two datagram queue pairs, with a region each.
func datagrams(t *testing.T, o QPOptions) (p *pair, ud [2]*UD) {
	dev := device(t)
	rdma(t, dev)
	p = &pair{dev: dev, pd: must[*PD](t)(dev.AllocPD())}
	for i := range 2 {
		p.mem[i] = must[*Buffer](t)(NewBuffer(4096, BufferOptions{}))
		p.mr[i] = must[*MR](t)(p.pd.Register(p.mem[i].Bytes(), allAccess))
		p.cq[i] = must[*CQ](t)(dev.CreateCQ(CQOptions{}))
		oi := o
		oi.CQ = p.cq[i]
		ud[i] = must[*UD](t)(p.pd.CreateUD(oi, testQKey))
	}
	return p, ud
}

func receive(t *testing.T, ud *UD, into Slice, id uint64) {
	t.Helper()
	_, rb := batches(t, ud.QP)
	rb.Recv(into, id)
	if err := rb.Post(); err != nil {
		t.Fatal(err)
	}
}

func TestADatagramIsAnsweredByItsHeader(t *testing.T) {
	for _, mode := range []struct {
		name string
		ops  SendOps
	}{{"classic", 0}, {"extended", OpsUD}} {
		t.Run(mode.name, func(t *testing.T) {
			p, ud := datagrams(t, QPOptions{Extended: mode.ops})
			gid, err := p.dev.BestGID(1)
			if err != nil {
				t.Fatal(err)
			}
			ah := must[*AH](t)(p.pd.CreateAH(Route{Port: 1, DGID: gid.GID, SGIDIndex: gid.Index, Global: true, HopLimit: 9, TrafficClass: 32}))
			b, _ := batches(t, ud[0].QP)
			fill(p.mem[0].Bytes(), 1)
			receive(t, ud[1], p.mr[1].At(0, 1024), 20)
			b.SendImm(p.mr[0].At(0, 100), 0xbeef, 1).To(ah, ud[1].QPN(), testQKey)
			if s := status(t, p.cq[0], b); s[0] != StatusSuccess {
				t.Fatal(s)
			}
			c := complete(t, p.cq[1], 1)[0]
			if imm, ok := c.Imm(); c.Err() != nil || c.Flags&WithGRH == 0 || c.Bytes != GRHBytes+100 || c.SrcQP != ud[0].QPN() || !ok || imm != 0xbeef {
				t.Fatalf("received %+v", c)
			}
			got := p.mem[1].Bytes()
			if !bytes.Equal(got[GRHBytes:GRHBytes+100], p.mem[0].Bytes()[:100]) {
				t.Error("the bytes differ")
			}
			grh, err := ParseGRH(got)
			if err != nil || grh.SGID != gid.GID || grh.DGID != gid.GID || grh.IPv4 != gid.GID.Addr().Is4() {
				t.Errorf("header %+v, %v; the GID is %v", grh, err, gid.GID)
			}

			// The answer needs nothing but what came.
			route, err := p.dev.ReplyRoute(1, &c, got)
			if err != nil || route.DGID != gid.GID || !route.Global {
				t.Fatalf("route back %+v, %v", route, err)
			}
			back := must[*AH](t)(p.pd.ReplyAH(1, &c, got))
			b1, _ := batches(t, ud[1].QP)
			receive(t, ud[0], p.mr[0].At(1024, 1024), 21)
			b1.Send(p.mr[1].At(GRHBytes, 100), 2).To(back, c.SrcQP, testQKey)
			if s := status(t, p.cq[1], b1); s[0] != StatusSuccess {
				t.Fatal(s)
			}
			if c := complete(t, p.cq[0], 1)[0]; c.ID != 21 || c.SrcQP != ud[1].QPN() {
				t.Errorf("the answer arrived as %+v", c)
			}
			_, err = p.dev.ReplyRoute(1, &c, nil)
			refused(t, err, errInvalid, "40 bytes")
		})
	}
}

func TestAWrongQKeyIsDroppedWithoutAnError(t *testing.T) {
	p, ud := datagrams(t, QPOptions{})
	gid, err := p.dev.BestGID(1)
	if err != nil {
		t.Fatal(err)
	}
	ah := must[*AH](t)(p.pd.CreateAH(Route{Port: 1, DGID: gid.GID, SGIDIndex: gid.Index, Global: true, HopLimit: 9}))
	receive(t, ud[1], p.mr[1].At(0, 1024), 20)
	b, _ := batches(t, ud[0].QP)
	b.Send(p.mr[0].At(0, 100), 1).To(ah, ud[1].QPN(), testQKey+1)
	if s := status(t, p.cq[0], b); s[0] != StatusSuccess {
		t.Fatal(s)
	}
	nothing(t, p.cq[1])
}

func TestAMulticastGroupReachesItsMembers(t *testing.T) {
	p, ud := datagrams(t, QPOptions{})
	a, err := p.dev.Attr()
	if err != nil {
		t.Fatal(err)
	}
	if a.MaxMulticastGroups == 0 {
		t.Skip("the device has no multicast groups")
	}
	gid, err := p.dev.BestGID(1)
	if err != nil {
		t.Fatal(err)
	}
	group := GID{10: 0xff, 11: 0xff, 12: 239, 13: 1, 14: 2, 15: 3}
	if !group.IsMulticast() || gid.GID.IsMulticast() {
		t.Fatal("multicast GIDs are not told apart")
	}
	if err := ud[1].JoinMulticast(group, 0); err != nil {
		t.Fatal(err)
	}
	receive(t, ud[1], p.mr[1].At(0, 1024), 30)
	ah := must[*AH](t)(p.pd.CreateAH(Route{Port: 1, DGID: group, SGIDIndex: gid.Index, Global: true, HopLimit: 1}))
	b, _ := batches(t, ud[0].QP)
	b.Send(p.mr[0].At(0, 64), 1).To(ah, 0xffffff, testQKey)
	if s := status(t, p.cq[0], b); s[0] != StatusSuccess {
		t.Fatal(s)
	}
	if ifi, err := net.InterfaceByIndex(gid.IfIndex); err == nil && ifi.Flags&net.FlagLoopback == 0 {
		// A packet to a group leaves by the wire, and comes back only where
		// something there sends it back.
		t.Logf("sent by %s; whether this machine hears itself is not the device's to say", ifi.Name)
	}
	if err := ud[1].Close(); !errors.Is(err, ErrBusy) {
		t.Errorf("closing a member of a group: %v", err)
	}
	if err := ud[1].LeaveMulticast(group, 0); err != nil {
		t.Error(err)
	}
	refused(t, ud[1].LeaveMulticast(group, 0), errInvalid, "no member")
	refused(t, ud[1].JoinMulticast(gid.GID, 0), errInvalid, "begins with ff")
}
