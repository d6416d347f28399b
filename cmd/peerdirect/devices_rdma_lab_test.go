//go:build lab

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/internal/inventory"
	"github.com/peerdirect/peerdirect/verbs"
)

// object is one of the rdma tool's.
type object map[string]any

func rdmaTool(t *testing.T, args ...string) []object {
	t.Helper()
	var list []object
	out := output(t, "rdma", append([]string{"-j", "-d"}, args...)...)
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("rdma %v: %v in %s", args, err, out)
	}
	return list
}

// matches compares every field of the rdma tool's object with ours; a field
// that is not among ours is missing.
func (o object) matches(t *testing.T, what string, ours map[string]string) {
	t.Helper()
	for key, value := range o {
		want := fmt.Sprint(value)
		if f, ok := value.(float64); ok {
			want = strconv.FormatFloat(f, 'f', -1, 64)
		}
		got, ok := ours[key]
		if !ok {
			t.Errorf("rdma shows %s %s %s, which we lack", what, key, want)
		} else if got != want {
			t.Errorf("rdma shows %s %s %s, we show %s", what, key, want, got)
		}
	}
}

func TestDevicesShowsAllThatTheRDMAToolShows(t *testing.T) {
	name := labDevice(t)
	inv := shown(t)
	i := slices.IndexFunc(inv.Devices, func(d inventory.Device) bool { return d.Name == name })
	if i < 0 {
		t.Fatalf("%s is missing", name)
	}
	d := &inv.Devices[i]
	dev := rdmaTool(t, "dev", "show", name)[0]
	caps, _ := dev["caps"].([]any)
	delete(dev, "caps")
	dev.matches(t, "dev", map[string]string{
		"ifindex": word(d.Index), "ifname": d.Name, "node_type": word(d.NodeType), "protocol": word(d.Protocol), "fw": word(d.Firmware),
		"node_guid": word(d.NodeGUID), "sys_image_guid": word(d.SystemGUID), "adaptive-moderation": word(d.Adaptive),
		"type": word(d.Type), "parent": word(d.Parent),
	})
	for _, c := range caps {
		// The tool repeats the end of one name, and knows none of the new bits.
		name := strings.Replace(fmt.Sprint(c), "_PORT_ENFORCE_PORT_ENFORCE", "_PORT_ENFORCE", 1)
		if name != "UNKNOWN" && !slices.Contains(d.Capabilities.Names, name) {
			t.Errorf("rdma shows the capability %s, we show %v", name, d.Capabilities.Names)
		}
	}
	if len(caps) != len(d.Capabilities.Names) {
		t.Errorf("rdma shows the capabilities %v, we show %v", caps, d.Capabilities.Names)
	}

	links := rdmaTool(t, "link", "show")
	for _, l := range links {
		if l["ifname"] != name {
			continue
		}
		p := &d.Ports[int(l["port"].(float64))-1]
		delete(l, "caps") // of InfiniBand only
		l.matches(t, "link", map[string]string{
			"ifindex": word(d.Index), "ifname": d.Name, "port": fmt.Sprint(p.Number), "state": word(p.State), "physical_state": word(p.PhysicalState),
			"netdev": word(p.Netdev), "netdev_index": word(p.NetdevIndex), "subnet_prefix": word(p.SubnetPrefix),
			"lid": number("%d", p.LID), "sm_lid": number("%d", p.SMLID), "lmc": word(p.LMC),
		})
	}

	for _, r := range rdmaTool(t, "resource", "show") {
		if r["ifname"] != name {
			continue
		}
		ours := map[string]string{"ifindex": word(d.Index), "ifname": d.Name}
		for _, c := range d.Resources.Counts {
			ours[c.Kind] = fmt.Sprint(c.Count)
			// Newer tools print "pd 1" next to its limit.
			ours[c.Kind+"-max"] = word(c.Max)
		}
		r.matches(t, "resource", ours)
	}
}

// What a process holds is shown as its own, as the rdma tool shows it.
func TestDevicesShowsTheObjectsOfAProcess(t *testing.T) {
	name := labDevice(t)
	dev, err := verbs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	closing := func(c interface{ Close() error }) {
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	closing(dev)
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	closing(pd)
	buf, err := verbs.NewBuffer(3<<12, verbs.BufferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	closing(buf)
	mr, err := pd.Register(buf.Bytes(), verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	closing(mr)
	cq, err := dev.CreateCQ(verbs.CQOptions{Depth: 100})
	if err != nil {
		t.Fatal(err)
	}
	closing(cq)
	qp, err := pd.CreateRC(verbs.QPOptions{CQ: cq})
	if err != nil {
		t.Fatal(err)
	}
	closing(qp)

	srq, err := pd.CreateSRQ(verbs.SRQOptions{})
	if err != nil {
		t.Fatal(err)
	}
	closing(srq)
	listener := exec.Command("rping", "-s", "-a", os.Getenv("PEERDIRECT_ADDR"))
	if err := listener.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		listener.Process.Kill()
		listener.Wait()
	})

	var d *inventory.Device
	for range 20 {
		inv := shown(t, "--device", name)
		d = &inv.Devices[0]
		if len(d.Resources.CMIDs) > 0 {
			break
		}
		time.Sleep(time.Second)
	}
	r := d.Resources
	if !slices.ContainsFunc(r.CMIDs, func(m inventory.CMID) bool {
		return m.State == "LISTEN" && m.PID != nil && int(*m.PID) == listener.Process.Pid && m.Source != nil && strings.HasPrefix(*m.Source, os.Getenv("PEERDIRECT_ADDR")+":")
	}) {
		t.Errorf("listener %d: we show %+v", listener.Process.Pid, r.CMIDs)
	}
	pid := uint32(os.Getpid())
	owned := func(o inventory.Owner) bool { return o.PID != nil && *o.PID == pid && !o.Kernel }
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	var q *inventory.QP
	for i := range r.QPs {
		if r.QPs[i].Number == qp.QPN() {
			q = &r.QPs[i]
		}
	}
	if q == nil || !owned(q.Owner) || q.Type != "RC" || word(q.Comm) != strings.TrimSpace(string(comm)) {
		t.Errorf("queue pair %d: we show %+v", qp.QPN(), r.QPs)
	}
	if i := slices.IndexFunc(r.MRs, func(m inventory.MR) bool { return m.LKey != nil && m.LKey.Value == uint64(mr.LKey()) }); i < 0 ||
		!owned(r.MRs[i].Owner) || r.MRs[i].Length != 3<<12 || r.MRs[i].RKey == nil || r.MRs[i].RKey.Value != uint64(mr.RKey()) {
		t.Errorf("memory region %#x: we show %+v", mr.LKey(), r.MRs)
	}
	if !slices.ContainsFunc(r.CQs, func(c inventory.CQ) bool { return owned(c.Owner) && c.Entries >= 100 }) {
		t.Errorf("completion queue: we show %+v", r.CQs)
	}
	if !slices.ContainsFunc(r.PDs, func(p inventory.PD) bool { return owned(p.Owner) }) {
		t.Errorf("protection domain: we show %+v", r.PDs)
	}
	if !slices.ContainsFunc(r.Contexts, func(c inventory.Context) bool { return owned(c.Owner) }) {
		t.Errorf("context: we show %+v", r.Contexts)
	}

	if !slices.ContainsFunc(r.SRQs, func(s inventory.SRQ) bool { return owned(s.Owner) && s.Type == "BASIC" }) {
		t.Errorf("shared receive queue: we show %+v", r.SRQs)
	}

	compareObjects(t, d)
	text := output(t, "peerdirect", "devices", "-v", "--device", name)
	for _, want := range []string{fmt.Sprint(qp.QPN()), fmt.Sprintf("%#08x", mr.RKey()), fmt.Sprint(pid)} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in the verbose text", want)
		}
	}
}

// compareObjects holds every object of the rdma tool against ours. Its pid is
// the thread; a kernel module is its comm in brackets.
func compareObjects(t *testing.T, d *inventory.Device) {
	t.Helper()
	r := d.Resources
	hexWord := func(h *inventory.Hex) string { return number("%x", h) }
	add := func(ours map[string]string, o inventory.Owner) map[string]string {
		ours["ifindex"], ours["ifname"] = word(d.Index), d.Name
		ours["pid"], ours["comm"] = word(o.TID), word(o.Comm)
		return ours
	}
	compared := 0
	all := func(kind, id string, list []map[string]string) {
		t.Helper()
		theirs := rdmaTool(t, "resource", "show", kind)
		n := 0
		for _, o := range theirs {
			if o["ifname"] != d.Name {
				continue
			}
			n++
			want := fmt.Sprint(o[id])
			i := slices.IndexFunc(list, func(ours map[string]string) bool { return ours[id] == want })
			if i < 0 {
				t.Errorf("rdma shows %s %s %s, which we lack", kind, id, want)
				continue
			}
			// The tool numbers the contexts that completions are polled in
			// differently from the kernel.
			delete(o, "poll-ctx")
			if comm := fmt.Sprint(o["comm"]); list[i]["comm"] != comm && strings.Trim(comm, "[]") == list[i]["comm"] {
				o["comm"] = list[i]["comm"]
			}
			o.matches(t, kind+" "+want, list[i])
			compared++
		}
		if n != len(list) {
			t.Errorf("rdma shows %d of %s, we show %d", n, kind, len(list))
		}
	}
	var list []map[string]string
	for _, q := range r.QPs {
		sq := fmt.Sprint(q.SQPSN)
		list = append(list, add(map[string]string{
			"port": word(q.Port), "lqpn": fmt.Sprint(q.Number), "type": q.Type, "subtype": word(q.Subtype), "state": q.State,
			"rqpn": word(q.Remote), "rq-psn": word(q.RQPSN), "sq-psn": sq, "path-mig-state": word(q.Migration), "pdn": word(q.PDN),
		}, q.Owner))
	}
	all("qp", "lqpn", list)
	list = nil
	for _, q := range r.CQs {
		list = append(list, add(map[string]string{
			"cqn": fmt.Sprint(q.Number), "cqe": fmt.Sprint(q.Entries), "users": fmt.Sprint(q.Users), "ctxn": word(q.CtxN),
			"adaptive-moderation": word(q.Adaptive),
		}, q.Owner))
	}
	all("cq", "cqn", list)
	list = nil
	for _, m := range r.MRs {
		list = append(list, add(map[string]string{
			"mrn": fmt.Sprint(m.Number), "mrlen": fmt.Sprint(m.Length), "lkey": hexWord(m.LKey), "rkey": hexWord(m.RKey),
			"iova": hexWord(m.IOVA), "pdn": word(m.PDN),
		}, m.Owner))
	}
	all("mr", "mrn", list)
	list = nil
	for _, p := range r.PDs {
		list = append(list, add(map[string]string{
			"pdn": fmt.Sprint(p.Number), "users": fmt.Sprint(p.Users), "ctxn": word(p.CtxN),
			"local_dma_lkey": hexWord(p.LocalKey), "unsafe_global_rkey": hexWord(p.GlobalKey),
		}, p.Owner))
	}
	all("pd", "pdn", list)
	list = nil
	for _, c := range r.CMIDs {
		ours := map[string]string{"cm-idn": fmt.Sprint(c.ID), "port": word(c.Port), "state": c.State, "ps": c.PortSpace,
			"lqpn": word(c.LocalQPN), "qp-type": word(c.QPType)}
		ours["src-addr"], ours["dst-addr"] = word(c.Source), word(c.Destination)
		list = append(list, add(ours, c.Owner))
	}
	all("cm_id", "cm-idn", list)
	list = nil
	for _, c := range r.Contexts {
		list = append(list, add(map[string]string{"ctxn": fmt.Sprint(c.Number)}, c.Owner))
	}
	all("ctx", "ctxn", list)
	list = nil
	for _, s := range r.SRQs {
		list = append(list, add(map[string]string{"srqn": fmt.Sprint(s.Number), "type": s.Type, "cqn": word(s.CQN), "pdn": word(s.PDN),
			"lqpn": strings.Join(s.QPs, ",")}, s.Owner))
	}
	all("srq", "srqn", list)
	t.Logf("%d objects of the rdma tool compared", compared)
}
