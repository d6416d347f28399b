//go:build lab

package nldev

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// These tests run in a guest of the lab, read what is there, and hold it against
// the rdma tool and sysfs. What there is to read is the caller's: a program with
// queue pairs that runs meanwhile makes them say more.

// labClient gives a Client of the guest's kernel and the name of its device.
func labClient(t *testing.T) (*Client, string) {
	t.Helper()
	name := os.Getenv("PEERDIRECT_DEVICE")
	if name == "" {
		t.Skip("needs a lab guest with an RDMA device (PEERDIRECT_DEVICE): run make test-lab")
	}
	c, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, name
}

// A row is one object in the rdma tool's words, values as text.
type row map[string]string

// rdmaTool runs rdma -d -j and gives its rows.
func rdmaTool(t *testing.T, args ...string) []row {
	t.Helper()
	if _, err := exec.LookPath("rdma"); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	command := exec.CommandContext(t.Context(), "rdma", append([]string{"-d", "-j"}, args...)...)
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", command, err, &stderr)
	}
	t.Logf("%s: %s", command, bytes.TrimSpace(out))
	decoder := json.NewDecoder(bytes.NewReader(out))
	decoder.UseNumber()
	var objects []map[string]any
	if err := decoder.Decode(&objects); err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	var rows []row
	for _, o := range objects {
		r := row{}
		for key, value := range o {
			if list, ok := value.([]any); ok {
				value = strings.Trim(fmt.Sprint(list), "[]")
			}
			r[key] = fmt.Sprint(value)
		}
		rows = append(rows, r)
	}
	return rows
}

// compare demands that ours and theirs have the same objects, told apart by the
// keys given, and that ours says the same wherever theirs says anything.
func compare(t *testing.T, theirs, ours []row, keys ...string) {
	t.Helper()
	identity := func(r row) string {
		var id []string
		for _, k := range keys {
			id = append(id, k+" "+r[k])
		}
		return strings.Join(id, ", ")
	}
	found := map[string]row{}
	for _, r := range ours {
		found[identity(r)] = r
	}
	for _, r := range theirs {
		o, ok := found[identity(r)]
		if !ok {
			t.Errorf("rdma has %s, we have not", identity(r))
			continue
		}
		delete(found, identity(r))
		for _, key := range slices.Sorted(maps.Keys(r)) {
			if got, ok := o[key]; !ok || got != r[key] {
				t.Errorf("%s: %s is %q, rdma says %q", identity(r), key, got, r[key])
			}
		}
	}
	for id := range found {
		t.Errorf("we have %s, rdma has not", id)
	}
	t.Logf("compared %d", len(theirs))
}

func sysfs(t *testing.T, device, file string) string {
	t.Helper()
	b, err := os.ReadFile("/sys/class/infiniband/" + device + "/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func TestLabDevices(t *testing.T) {
	c, name := labClient(t)
	devices, err := c.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ours []row
	for _, d := range devices {
		t.Logf("%+v", d)
		r := row{
			"ifindex": fmt.Sprint(d.Index), "ifname": d.Name, "node_type": d.NodeType.String(), "protocol": d.Protocol,
			"fw": d.Firmware, "node_guid": d.NodeGUID.String(), "sys_image_guid": d.SysImageGUID.String(),
			"type": d.Type.String(), "parent": d.Parent,
		}
		if d.AdaptiveModeration.OK {
			r["adaptive-moderation"] = strconv.FormatBool(d.AdaptiveModeration.V)
		}
		ours = append(ours, r)

		if guid := sysfs(t, d.Name, "node_guid"); guid != d.NodeGUID.String() {
			t.Errorf("%s: node GUID %s, sysfs says %s", d.Name, d.NodeGUID, guid)
		}
		if guid := sysfs(t, d.Name, "sys_image_guid"); guid != d.SysImageGUID.String() {
			t.Errorf("%s: system image GUID %s, sysfs says %s", d.Name, d.SysImageGUID, guid)
		}
		ports, err := os.ReadDir("/sys/class/infiniband/" + d.Name + "/ports")
		if err != nil || len(ports) != int(d.Ports) {
			t.Errorf("%s: %d ports, sysfs says %d, %v", d.Name, d.Ports, len(ports), err)
		}
	}
	theirs := rdmaTool(t, "dev")
	for _, r := range theirs {
		// The tool's words for capabilities are older than 7.3's; their number is not.
		for _, d := range devices {
			if theirs := strings.Fields(r["caps"]); d.Name == r["ifname"] && len(theirs) != len(d.Caps.Names()) {
				t.Errorf("%s: caps %s, rdma says %s", d.Name, d.Caps, theirs)
			}
		}
		delete(r, "caps")
	}
	compare(t, theirs, ours, "ifindex")

	if d, err := c.Device(t.Context(), name); err != nil || d.Name != name {
		t.Errorf("%s: %+v, %v", name, d, err)
	}
	if _, err := c.Device(t.Context(), "absent"); !errors.Is(err, ErrNoDevice) {
		t.Error(err)
	} else {
		t.Log(err)
	}
}

func TestLabLinks(t *testing.T) {
	c, _ := labClient(t)
	links, err := c.Links(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var ours []row
	for _, l := range links {
		t.Logf("%+v", l)
		r := row{
			"ifindex": fmt.Sprint(l.DeviceIndex), "ifname": l.Device, "port": fmt.Sprint(l.Port),
			"state": l.State.String(), "physical_state": l.PhysState.String(),
			"netdev": l.Netdev, "netdev_index": fmt.Sprint(l.NetdevIndex),
		}
		if l.IB.OK {
			r["subnet_prefix"], r["lid"], r["sm_lid"], r["lmc"] = l.IB.V.SubnetPrefix.String(), fmt.Sprint(l.IB.V.LID), fmt.Sprint(l.IB.V.SMLID), fmt.Sprint(l.IB.V.LMC)
		}
		ours = append(ours, r)

		port := fmt.Sprintf("ports/%d/", l.Port)
		if state := sysfs(t, l.Device, port+"state"); state != fmt.Sprintf("%d: %s", l.State, l.State) {
			t.Errorf("%s: state %s, sysfs says %s", l.Name(), l.State, state)
		}
		if state := sysfs(t, l.Device, port+"phys_state"); !strings.HasPrefix(state, fmt.Sprintf("%d: ", l.PhysState)) {
			t.Errorf("%s: physical state %s, sysfs says %s", l.Name(), l.PhysState, state)
		}
	}
	theirs := rdmaTool(t, "link")
	for _, r := range theirs {
		delete(r, "caps")
	}
	compare(t, theirs, ours, "ifindex", "port")
}

func TestLabSummary(t *testing.T) {
	c, _ := labClient(t)
	summaries, err := c.Summary(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var ours []row
	for _, s := range summaries {
		t.Logf("%+v", s)
		r := row{"ifindex": fmt.Sprint(s.DeviceIndex), "ifname": s.Device}
		for _, n := range s.Counts {
			r[n.Kind] = fmt.Sprint(n.N)
		}
		ours = append(ours, r)
	}
	// Without -d, which counts the drivers' own objects too.
	compare(t, rdmaTool(t, "res"), ours, "ifindex")
}

func TestLabCounters(t *testing.T) {
	c, name := labClient(t)
	before, err := c.Counters(t.Context(), name, 1)
	if errors.Is(err, ErrUnsupported) {
		if _, statErr := os.Stat("/sys/class/infiniband/" + name + "/ports/1/hw_counters"); statErr == nil {
			t.Errorf("%v, but sysfs has hw_counters", err)
		}
		t.Skip("the driver has no hardware counters: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	between := map[string]uint64{}
	for _, n := range before {
		between[n.Name], err = strconv.ParseUint(sysfs(t, name, "ports/1/hw_counters/"+n.Name), 10, 64)
		if err != nil {
			t.Error(err)
		}
	}
	after, err := c.Counters(t.Context(), name, 1)
	if err != nil || len(after) != len(before) {
		t.Fatalf("%d counters, then %d, %v", len(before), len(after), err)
	}
	for i, n := range before {
		if v := between[n.Name]; v < n.Value || v > after[i].Value {
			t.Errorf("%s is %d, then %d in sysfs, then %d", n.Name, n.Value, v, after[i].Value)
		}
	}
	t.Logf("%+v", after)

	statuses, err := c.CounterStatuses(t.Context(), name, 1)
	if err != nil || len(statuses) < len(before) {
		t.Errorf("%d states of %d counters, %v", len(statuses), len(before), err)
	}
	binding, err := c.CounterBinding(t.Context(), name, 1)
	t.Logf("binding %+v, %v", binding, err)
	counters, err := c.QPCounters(t.Context(), Filter{Device: name, Port: 1})
	if err != nil {
		t.Error(err)
	}
	t.Logf("queue pair counters %+v", counters)
	if _, err := c.MRCounters(t.Context(), Filter{Device: name}); err != nil {
		t.Error(err)
	}
}

func TestLabCharDev(t *testing.T) {
	c, name := labClient(t)
	got, err := c.CharDev(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", got)
	class := "/sys/class/infiniband_verbs/" + got.Name + "/"
	for file, want := range map[string]string{
		class + "ibdev":       name,
		class + "dev":         fmt.Sprintf("%d:%d", got.Major, got.Minor),
		class + "abi_version": fmt.Sprint(got.ABI),
	} {
		if b, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(b)) != want {
			t.Errorf("%s is %q, want %q (%v)", file, b, want, err)
		}
	}
	if kind := strings.TrimRight(name, "0123456789_"); got.Driver.String() != kind {
		t.Errorf("the driver of %s is %s", name, got.Driver)
	}
}

func TestLabSystem(t *testing.T) {
	c, _ := labClient(t)
	s, err := c.System(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", s)
	words, err := exec.Command("rdma", "system").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("rdma system: %s", words)
	fields := strings.Fields(string(words))
	for i := 0; i+1 < len(fields); i += 2 {
		got := map[string]string{
			"netns":           map[bool]string{true: "shared", false: "exclusive"}[s.SharedNamespaces],
			"copy-on-fork":    map[bool]string{true: "on", false: "off"}[s.CopyOnFork],
			"privileged-qkey": map[bool]string{true: "on", false: "off"}[s.PrivilegedQKey],
			"monitor":         map[bool]string{true: "on", false: "off"}[s.Monitor],
		}[fields[i]]
		if got != fields[i+1] {
			t.Errorf("%s is %s, rdma says %s", fields[i], got, fields[i+1])
		}
	}
}

// Newer parts are there or unsupported, and nothing else.
func TestLabNewer(t *testing.T) {
	c, _ := labClient(t)
	pools, err := c.FRMRPools(t.Context(), Filter{})
	if err != nil && !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
	t.Logf("pools %+v, %v", pools, err)

	monitor, err := c.Monitor(t.Context())
	if err != nil {
		if !errors.Is(err, ErrUnsupported) {
			t.Error(err)
		}
		t.Skip("the kernel sends no notifications: ", err)
	}
	defer monitor.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if e, err := monitor.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, %v", e, err)
	}
}
