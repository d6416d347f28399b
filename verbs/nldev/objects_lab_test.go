//go:build lab

package nldev

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// labObjects compares one kind of object. words gives an object's row without
// what every object has.
func labObjects[T any, P object[T]](t *testing.T, list func(context.Context, Filter) ([]T, error), words func(P) row, tool, id string) {
	t.Helper()
	objects, err := list(t.Context(), Filter{DriverDetails: true})
	if err != nil {
		t.Fatal(err)
	}
	var ours []row
	for i := range objects {
		t.Logf("%+v", objects[i])
		o := P(&objects[i]).object()
		r := words(&objects[i])
		r["ifindex"], r["ifname"] = fmt.Sprint(o.DeviceIndex), o.Device
		r["comm"] = o.Owner.Comm
		if o.Owner.TID != 0 {
			r["pid"] = fmt.Sprint(o.Owner.TID)
			if o.Owner.TID != o.Owner.PID { // the tool names the thread, not the process
				name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", o.Owner.TID))
				if err != nil {
					t.Error(err)
				}
				r["comm"] = strings.TrimSpace(string(name))
			}
		}
		for _, v := range o.Driver {
			r["drv_"+v.Name] = fmt.Sprint(v.Value)
		}
		ours = append(ours, r)
	}
	theirs := rdmaTool(t, "res", "show", tool)
	for _, r := range theirs {
		// The tool's table of poll contexts begins with DIRECT, as no kernel's does
		// any more, and so is one off.
		delete(r, "poll-ctx")
		if r["comm"] == r["lqpn"] { // the tool of 6.1, of a shared receive queue
			delete(r, "comm")
		}
	}
	compare(t, theirs, ours, "ifindex", id)
}

func TestLabQPs(t *testing.T) {
	c, _ := labClient(t)
	labObjects(t, c.QPs, func(q *QP) row {
		r := row{
			"lqpn": fmt.Sprint(q.LocalQPN), "type": q.Type.String(), "subtype": q.Subtype, "state": q.State.String(),
			"sq-psn": fmt.Sprint(q.SQPSN), "pdn": fmt.Sprint(q.PDN), "port": fmt.Sprint(q.Port),
		}
		if q.Connected.OK {
			r["rqpn"], r["rq-psn"] = fmt.Sprint(q.Connected.V.RemoteQPN), fmt.Sprint(q.Connected.V.RQPSN)
		}
		if q.Migration.OK {
			r["path-mig-state"] = q.Migration.V.String()
		}
		return r
	}, "qp", "lqpn")
}

func TestLabCMIDs(t *testing.T) {
	c, _ := labClient(t)
	labObjects(t, c.CMIDs, func(m *CMID) row {
		return row{
			"cm-idn": fmt.Sprint(m.ID), "lqpn": fmt.Sprint(m.LocalQPN), "qp-type": m.QPType.String(), "state": m.State.String(),
			"ps": m.PortSpace.String(), "port": fmt.Sprint(m.Port),
			"src-addr": strings.NewReplacer("[", "", "]", "").Replace(m.Source.String()),
			"dst-addr": strings.NewReplacer("[", "", "]", "").Replace(m.Destination.String()),
		}
	}, "cm_id", "cm-idn")
}

func TestLabCQs(t *testing.T) {
	c, _ := labClient(t)
	labObjects(t, c.CQs, func(q *CQ) row {
		r := row{"cqn": fmt.Sprint(q.CQN), "cqe": fmt.Sprint(q.CQE), "users": fmt.Sprint(q.Users), "ctxn": fmt.Sprint(q.CtxN)}
		if q.AdaptiveModeration.OK {
			r["adaptive-moderation"] = strconv.FormatBool(q.AdaptiveModeration.V)
		}
		return r
	}, "cq", "cqn")
}

func hex(v Opt[uint32]) string { return strconv.FormatUint(uint64(v.V), 16) }

func TestLabMRs(t *testing.T) {
	c, _ := labClient(t)
	labObjects(t, c.MRs, func(m *MR) row {
		return row{
			"mrn": fmt.Sprint(m.MRN), "mrlen": fmt.Sprint(m.Length), "pdn": fmt.Sprint(m.PDN),
			"lkey": hex(m.LKey), "rkey": hex(m.RKey),
		}
	}, "mr", "mrn")
}

func TestLabPDs(t *testing.T) {
	c, _ := labClient(t)
	labObjects(t, c.PDs, func(p *PD) row {
		return row{
			"pdn": fmt.Sprint(p.PDN), "users": fmt.Sprint(p.Users), "ctxn": fmt.Sprint(p.CtxN),
			"local_dma_lkey": hex(p.LocalDMALKey), "unsafe_global_rkey": hex(p.UnsafeGlobalRKey),
		}
	}, "pd", "pdn")
}

func TestLabContexts(t *testing.T) {
	c, _ := labClient(t)
	labObjects(t, c.Contexts, func(x *Context) row {
		return row{"ctxn": fmt.Sprint(x.CtxN)}
	}, "ctx", "ctxn")
}

func TestLabSRQs(t *testing.T) {
	c, _ := labClient(t)
	labObjects(t, c.SRQs, func(q *SRQ) row {
		var qps []string
		for _, run := range q.QPs {
			qps = append(qps, run.String())
		}
		return row{
			"srqn": fmt.Sprint(q.SRQN), "type": q.Type.String(), "pdn": fmt.Sprint(q.PDN), "cqn": fmt.Sprint(q.CQN),
			"lqpn": strings.Join(qps, " "),
		}
	}, "srq", "srqn")
}
