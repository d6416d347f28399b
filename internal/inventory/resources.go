package inventory

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/peerdirect/peerdirect/verbs/nldev"
)

// Resources are the objects of a device, as the kernel tracks them. A list that
// could not be had is null.
type Resources struct {
	Counts   []Count   `json:"counts" group:"Counts"`
	QPs      []QP      `json:"qps" group:"Queue pairs"`
	CQs      []CQ      `json:"cqs" group:"Completion queues"`
	MRs      []MR      `json:"mrs" group:"Memory regions"`
	PDs      []PD      `json:"pds" group:"Protection domains"`
	CMIDs    []CMID    `json:"cm_ids" group:"Connection ids"`
	SRQs     []SRQ     `json:"srqs" group:"Shared receive queues"`
	Contexts []Context `json:"contexts" group:"Contexts"`
}

// Count is how many objects of a kind there are: pd, cq, qp, cm_id, mr, ctx, srq.
type Count struct {
	Kind  string  `json:"kind"`
	Count uint64  `json:"count"`
	Max   *uint64 `json:"max"`
}

// Owner made an object. PID is the process, TID the thread that did (which is
// what the rdma tool calls pid); a kernel module has neither.
type Owner struct {
	PID    *uint32 `json:"pid"`
	TID    *uint32 `json:"tid"`
	Comm   *string `json:"comm"`
	Kernel bool    `json:"kernel"`
	// Driver is what the driver adds, in its own words.
	Driver []string `json:"driver_details"`
}

func owner(o nldev.Object) Owner {
	w := Owner{PID: some(o.Owner.PID), TID: some(o.Owner.TID), Comm: some(o.Owner.Comm), Kernel: o.Owner.Kernel, Driver: []string{}}
	for _, v := range o.Driver {
		w.Driver = append(w.Driver, v.String())
	}
	return w
}

// QP is a queue pair.
type QP struct {
	Number    uint32  `json:"lqpn"`
	Port      *uint32 `json:"port"`
	Type      string  `json:"type"`
	Subtype   *string `json:"subtype"`
	State     string  `json:"state"`
	Remote    *uint32 `json:"rqpn"`
	RQPSN     *uint32 `json:"rq_psn"`
	SQPSN     uint32  `json:"sq_psn"`
	Migration *string `json:"path_migration"`
	PDN       *uint32 `json:"pdn"`
	Owner
}

// CQ is a completion queue.
type CQ struct {
	Number      uint32  `json:"cqn"`
	Entries     uint32  `json:"cqe"`
	Users       uint64  `json:"users"`
	PollContext *string `json:"poll_context"`
	Adaptive    *bool   `json:"adaptive_moderation"`
	CtxN        *uint32 `json:"ctxn"`
	Owner
}

// MR is a memory region. The keys are for readers with CAP_NET_ADMIN.
type MR struct {
	Number uint32  `json:"mrn"`
	Length uint64  `json:"length_bytes"`
	LKey   *Hex    `json:"lkey"`
	RKey   *Hex    `json:"rkey"`
	IOVA   *Hex    `json:"iova"`
	PDN    *uint32 `json:"pdn"`
	Owner
}

// PD is a protection domain.
type PD struct {
	Number    uint32  `json:"pdn"`
	Users     uint64  `json:"users"`
	LocalKey  *Hex    `json:"local_dma_lkey"`
	GlobalKey *Hex    `json:"unsafe_global_rkey"`
	CtxN      *uint32 `json:"ctxn"`
	Owner
}

// CMID is an identifier of the connection manager.
type CMID struct {
	ID          uint32  `json:"cm_idn"`
	Port        *uint32 `json:"port"`
	State       string  `json:"state"`
	PortSpace   string  `json:"port_space"`
	LocalQPN    *uint32 `json:"lqpn"`
	QPType      *string `json:"qp_type"`
	Source      *string `json:"source"`
	Destination *string `json:"destination"`
	Owner
}

// SRQ is a shared receive queue.
type SRQ struct {
	Number uint32   `json:"srqn"`
	Type   string   `json:"type"`
	CQN    *uint32  `json:"cqn"`
	PDN    *uint32  `json:"pdn"`
	QPs    []string `json:"qps"` // numbers and ranges: 17, 20-31
	Owner
}

// Context is a process's open device.
type Context struct {
	Number uint32 `json:"ctxn"`
	Owner
}

// keepPort drops the objects of other ports.
func (r *Resources) keepPort(port int) {
	if r == nil {
		return
	}
	r.QPs = keep(r.QPs, func(q QP) bool { return q.Port == nil || *q.Port == uint32(port) })
	r.CMIDs = keep(r.CMIDs, func(m CMID) bool { return m.Port == nil || *m.Port == uint32(port) })
}

func keep[T any](list []T, ok func(T) bool) []T {
	if list == nil {
		return nil
	}
	out := []T{}
	for _, v := range list {
		if ok(v) {
			out = append(out, v)
		}
	}
	return out
}

// some is a value of which the kernel's 0 or "" means that there is none.
func some[T comparable](v T) *T {
	var none T
	if v == none {
		return nil
	}
	return &v
}

// word is what the kernel may leave out, as its text.
func word[T fmt.Stringer](o nldev.Opt[T]) *string {
	if !o.OK {
		return nil
	}
	return new(o.V.String())
}

func key(o nldev.Opt[uint32]) *Hex {
	if !o.OK {
		return nil
	}
	return hex(uint64(o.V), 8)
}

func endpoint(a netip.AddrPort) *string {
	if !a.IsValid() {
		return nil
	}
	return new(a.String())
}

// objects lists one kind; what the kernel or the driver does not list is null
// without being a problem.
func objects[N, T any](ctx context.Context, c *collector, d *Device, list func(context.Context, nldev.Filter) ([]N, error), one func(N) T) []T {
	found, err := list(ctx, nldev.Filter{Device: d.Name})
	if err != nil {
		if !errors.Is(err, nldev.ErrUnsupported) {
			c.fail("netlink", d.Name, 0, err)
		}
		return nil
	}
	out := make([]T, 0, len(found))
	for _, n := range found {
		out = append(out, one(n))
	}
	return out
}

func (c *collector) resources(ctx context.Context, d *Device) {
	r := &Resources{}
	summaries, err := c.netlink.Summary(ctx, d.Name)
	if err != nil {
		c.fail("netlink", d.Name, 0, err)
		return
	}
	r.Counts = []Count{}
	for _, s := range summaries {
		for _, n := range s.Counts {
			r.Counts = append(r.Counts, Count{Kind: n.Kind, Count: n.N, Max: some(n.Max)})
		}
	}
	d.Resources = r
	if c.options.Brief {
		return
	}
	r.QPs = objects(ctx, c, d, c.netlink.QPs, func(q nldev.QP) QP {
		out := QP{
			Number: q.LocalQPN, Port: some(q.Port), Type: q.Type.String(), Subtype: some(q.Subtype), State: q.State.String(),
			SQPSN: q.SQPSN, Migration: word(q.Migration), PDN: some(q.PDN), Owner: owner(q.Object),
		}
		if q.Connected.OK {
			out.Remote, out.RQPSN = &q.Connected.V.RemoteQPN, &q.Connected.V.RQPSN
		}
		return out
	})
	r.CQs = objects(ctx, c, d, c.netlink.CQs, func(q nldev.CQ) CQ {
		return CQ{
			Number: q.CQN, Entries: q.CQE, Users: q.Users, PollContext: word(q.PollContext),
			Adaptive: optional(q.AdaptiveModeration), CtxN: some(q.CtxN), Owner: owner(q.Object),
		}
	})
	r.MRs = objects(ctx, c, d, c.netlink.MRs, func(m nldev.MR) MR {
		out := MR{Number: m.MRN, Length: m.Length, LKey: key(m.LKey), RKey: key(m.RKey), PDN: some(m.PDN), Owner: owner(m.Object)}
		if m.IOVA.OK {
			out.IOVA = hex(m.IOVA.V, 1)
		}
		return out
	})
	r.PDs = objects(ctx, c, d, c.netlink.PDs, func(p nldev.PD) PD {
		return PD{
			Number: p.PDN, Users: p.Users, LocalKey: key(p.LocalDMALKey), GlobalKey: key(p.UnsafeGlobalRKey),
			CtxN: some(p.CtxN), Owner: owner(p.Object),
		}
	})
	r.CMIDs = objects(ctx, c, d, c.netlink.CMIDs, func(m nldev.CMID) CMID {
		out := CMID{
			ID: m.ID, Port: some(m.Port), State: m.State.String(), PortSpace: m.PortSpace.String(),
			LocalQPN: some(m.LocalQPN), Source: endpoint(m.Source), Destination: endpoint(m.Destination), Owner: owner(m.Object),
		}
		if m.LocalQPN != 0 {
			out.QPType = new(m.QPType.String())
		}
		return out
	})
	r.SRQs = objects(ctx, c, d, c.netlink.SRQs, func(s nldev.SRQ) SRQ {
		out := SRQ{Number: s.SRQN, Type: s.Type.String(), CQN: some(s.CQN), PDN: some(s.PDN), QPs: []string{}, Owner: owner(s.Object)}
		for _, run := range s.QPs {
			out.QPs = append(out.QPs, run.String())
		}
		return out
	})
	r.Contexts = objects(ctx, c, d, c.netlink.Contexts, func(x nldev.Context) Context {
		return Context{Number: x.CtxN, Owner: owner(x.Object)}
	})
}
