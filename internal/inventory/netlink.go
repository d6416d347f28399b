package inventory

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/verbs/nldev"
)

// fromNetlink adds what the RDMA netlink tells; false is a device it does not
// know.
func (c *collector) fromNetlink(ctx context.Context, d *Device) bool {
	n, ok := c.listed[d.Name]
	if !ok {
		return false
	}
	d.Index = &n.Index
	d.NodeType = new(n.NodeType.String())
	d.PortCount = new(int(n.Ports))
	d.NodeGUID = new(n.NodeGUID.String())
	d.SystemGUID = new(n.SysImageGUID.String())
	d.Capabilities = flags(uint64(n.Caps), 8, deviceCaps(uint64(n.Caps)))
	d.Adaptive, d.ByUser = optional(n.AdaptiveModeration), optional(n.NamedByUser)
	if n.Protocol != "" {
		d.Protocol = &n.Protocol
	}
	if n.Firmware != "" {
		d.Firmware = &n.Firmware
	}
	if n.Type != 0 {
		d.Type = new(n.Type.String())
	}
	if n.Parent != "" {
		d.Parent = &n.Parent
	}
	if id, ok := driverID(n.Index); ok {
		d.Driver, d.Module = new(id.name), new(id.module)
	}
	links, err := c.netlink.Links(ctx, d.Name)
	if err != nil {
		c.fail("netlink", d.Name, 0, err)
	}
	for _, l := range links {
		d.portOf(int(l.Port)).netlink(l)
		if l.Netdev != "" {
			n := d.netdev(l.Netdev)
			n.sysfs(c.root, new(error))
			n.Index, n.Port = new(int(l.NetdevIndex)), new(int(l.Port))
		}
	}
	c.resources(ctx, d)
	return true
}

func optional[T any](o nldev.Opt[T]) *T {
	if !o.OK {
		return nil
	}
	return &o.V
}

func (p *Port) netlink(l nldev.Link) {
	p.State = new(l.State.String())
	p.PhysicalState = new(l.PhysState.String())
	p.Netdev, p.NetdevIndex = nil, nil
	if l.Netdev != "" {
		p.Netdev, p.NetdevIndex = &l.Netdev, new(int(l.NetdevIndex))
	}
	if l.IB.OK {
		ib := l.IB.V
		p.LID, p.SMLID, p.LMC = hex(uint64(ib.LID), 4), hex(uint64(ib.SMLID), 4), new(int(ib.LMC))
		p.SubnetPrefix = new(ib.SubnetPrefix.String())
	}
}

// A driver by its number, enum rdma_driver_id of rdma/ib_user_ioctl_verbs.h.
type driver struct{ name, module string }

var drivers = map[uint32]driver{
	1: {"mlx5", "mlx5_ib"}, 2: {"mlx4", "mlx4_ib"}, 3: {"cxgb3", "iw_cxgb3"}, 4: {"cxgb4", "iw_cxgb4"},
	5: {"mthca", "ib_mthca"}, 6: {"bnxt_re", "bnxt_re"}, 7: {"ocrdma", "ocrdma"}, 8: {"nes", "iw_nes"},
	9: {"irdma", "irdma"}, 10: {"vmw_pvrdma", "vmw_pvrdma"}, 11: {"qedr", "qedr"}, 12: {"hns", "hns_roce_hw_v2"},
	13: {"usnic", "usnic_verbs"}, 14: {"rxe", "rdma_rxe"}, 15: {"hfi1", "hfi1"}, 16: {"qib", "ib_qib"},
	17: {"efa", "efa"}, 18: {"siw", "siw"}, 19: {"erdma", "erdma"}, 20: {"mana", "mana_ib"}, 21: {"ionic", "ionic_rdma"},
}

// Numbers of rdma_netlink.h.
const (
	getChardev   = 5<<10 | 15 // RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET_CHARDEV
	attrDevIndex = 1          // RDMA_NLDEV_ATTR_DEV_INDEX
	attrChardev  = 69         // RDMA_NLDEV_ATTR_CHARDEV_TYPE
	attrDriverID = 73         // RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID
)

// driverID asks which driver's user library goes with a device: the only place
// where the kernel names the driver of a software device.
func driverID(index uint32) (driver, bool) {
	req := nl.NewNetlinkRequest(getChardev, 0)
	req.AddData(nl.NewRtAttr(attrDevIndex, binary.NativeEndian.AppendUint32(nil, index)))
	req.AddData(nl.NewRtAttr(attrChardev, nl.ZeroTerminated("uverbs")))
	answers, err := req.Execute(unix.NETLINK_RDMA, 0)
	if err != nil {
		return driver{}, false
	}
	for _, b := range answers {
		attrs, err := nl.ParseRouteAttr(b)
		if err != nil {
			continue
		}
		for _, a := range attrs {
			if a.Attr.Type == attrDriverID && len(a.Value) == 4 {
				id, ok := drivers[binary.NativeEndian.Uint32(a.Value)]
				return id, ok
			}
		}
	}
	return driver{}, false
}

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
	w := Owner{Kernel: o.Owner.Kernel, Driver: []string{}}
	if o.Owner.PID != 0 {
		w.PID = &o.Owner.PID
	}
	if o.Owner.TID != 0 {
		w.TID = &o.Owner.TID
	}
	if o.Owner.Comm != "" {
		w.Comm = &o.Owner.Comm
	}
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

// some is a number of which the kernel's 0 means that there is none.
func some(n uint32) *uint32 {
	if n == 0 {
		return nil
	}
	return &n
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
func objects[N, T any](c *collector, d *Device, list func(context.Context, nldev.Filter) ([]N, error), ctx context.Context, one func(N) T) []T {
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
			count := Count{Kind: n.Kind, Count: n.N}
			if n.Max != 0 {
				count.Max = &n.Max
			}
			r.Counts = append(r.Counts, count)
		}
	}
	d.Resources = r
	if c.options.Brief {
		return
	}
	r.QPs = objects(c, d, c.netlink.QPs, ctx, func(q nldev.QP) QP {
		out := QP{
			Number: q.LocalQPN, Port: some(q.Port), Type: q.Type.String(), State: q.State.String(),
			SQPSN: q.SQPSN, PDN: some(q.PDN), Owner: owner(q.Object),
		}
		if q.Subtype != "" {
			out.Subtype = &q.Subtype
		}
		if q.Connected.OK {
			out.Remote, out.RQPSN = &q.Connected.V.RemoteQPN, &q.Connected.V.RQPSN
		}
		if q.Migration.OK {
			out.Migration = new(q.Migration.V.String())
		}
		return out
	})
	r.CQs = objects(c, d, c.netlink.CQs, ctx, func(q nldev.CQ) CQ {
		out := CQ{
			Number: q.CQN, Entries: q.CQE, Users: q.Users, CtxN: some(q.CtxN),
			Adaptive: optional(q.AdaptiveModeration), Owner: owner(q.Object),
		}
		if q.PollContext.OK {
			out.PollContext = new(q.PollContext.V.String())
		}
		return out
	})
	r.MRs = objects(c, d, c.netlink.MRs, ctx, func(m nldev.MR) MR {
		out := MR{Number: m.MRN, Length: m.Length, LKey: key(m.LKey), RKey: key(m.RKey), PDN: some(m.PDN), Owner: owner(m.Object)}
		if m.IOVA.OK {
			out.IOVA = hex(m.IOVA.V, 1)
		}
		return out
	})
	r.PDs = objects(c, d, c.netlink.PDs, ctx, func(p nldev.PD) PD {
		return PD{
			Number: p.PDN, Users: p.Users, LocalKey: key(p.LocalDMALKey), GlobalKey: key(p.UnsafeGlobalRKey),
			CtxN: some(p.CtxN), Owner: owner(p.Object),
		}
	})
	r.CMIDs = objects(c, d, c.netlink.CMIDs, ctx, func(m nldev.CMID) CMID {
		out := CMID{
			ID: m.ID, Port: some(m.Port), State: m.State.String(), PortSpace: m.PortSpace.String(),
			LocalQPN: some(m.LocalQPN), Source: endpoint(m.Source), Destination: endpoint(m.Destination), Owner: owner(m.Object),
		}
		if m.LocalQPN != 0 {
			out.QPType = new(m.QPType.String())
		}
		return out
	})
	r.SRQs = objects(c, d, c.netlink.SRQs, ctx, func(s nldev.SRQ) SRQ {
		out := SRQ{Number: s.SRQN, Type: s.Type.String(), CQN: some(s.CQN), PDN: some(s.PDN), QPs: []string{}, Owner: owner(s.Object)}
		for _, run := range s.QPs {
			text := fmt.Sprint(run.First)
			if run.Last != run.First {
				text = fmt.Sprintf("%d-%d", run.First, run.Last)
			}
			out.QPs = append(out.QPs, text)
		}
		return out
	})
	r.Contexts = objects(c, d, c.netlink.Contexts, ctx, func(x nldev.Context) Context {
		return Context{Number: x.CtxN, Owner: owner(x.Object)}
	})
}
