//go:build lab

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/internal/inventory"
	"github.com/peerdirect/peerdirect/verbs"
)

// labDevice names the guest's device.
func labDevice(t *testing.T) string {
	t.Helper()
	name := os.Getenv("PEERDIRECT_DEVICE")
	if name == "" {
		t.Skip("needs a lab guest with an RDMA device: run make test-lab")
	}
	return name
}

// output runs a command that must succeed.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, &stderr)
	}
	return string(out)
}

// shown is what peerdirect devices --json prints.
func shown(t *testing.T, args ...string) inventory.Inventory {
	t.Helper()
	var inv inventory.Inventory
	d := json.NewDecoder(strings.NewReader(output(t, "peerdirect", append([]string{"devices", "--json"}, args...)...)))
	d.DisallowUnknownFields()
	if err := d.Decode(&inv); err != nil {
		t.Fatal(err)
	}
	return inv
}

// word prints a value that may be unknown.
func word[T any](v *T) string {
	if v == nil {
		return "null"
	}
	return fmt.Sprint(*v)
}

// number prints a mask the way a C format would.
func number(format string, h *inventory.Hex) string {
	if h == nil {
		return "null"
	}
	return fmt.Sprintf(format, h.Value)
}

// An entry of ibv_devinfo's output: a field, its value, and lines that belong
// to it.
type entry struct {
	key   string // with its section before it: tso_caps.max_tso
	value string
	lines []string
}

var devinfoField = regexp.MustCompile(`^(\t*)(GID\[ *\d+\]|[a-z][A-Za-z0-9_ ]*):\s*(.*)$`)

// parseDevinfo takes the output of ibv_devinfo -v apart, leaving nothing out.
func parseDevinfo(t *testing.T, text string) []entry {
	t.Helper()
	var all []entry
	section, depth := "", 0
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.TrimSpace(line) == "" {
			continue
		}
		trimmed := strings.TrimSpace(line)
		m := devinfoField.FindStringSubmatch(line)
		if m == nil && strings.HasSuffix(trimmed, " not supported") {
			all = append(all, entry{key: strings.TrimSuffix(trimmed, " not supported"), value: "not supported"})
			continue
		}
		if m == nil || len(m[1]) > 4 {
			if len(all) == 0 {
				t.Fatalf("ibv_devinfo begins with %q", line)
			}
			last := &all[len(all)-1]
			last.lines = append(last.lines, trimmed)
			continue
		}
		tabs, key, value := len(m[1]), m[2], strings.TrimSpace(m[3])
		switch {
		case key == "port":
			section = ""
		case tabs == 1 || tabs == 3:
			section = ""
			if value == "" {
				section, depth = key, tabs
			}
		case section != "" && tabs == depth+1:
			key = section + "." + key
		}
		all = append(all, entry{key: key, value: value})
	}
	return all
}

// devinfo tells, for each field that ibv_devinfo can print, what it should have
// printed for what we show. A check gives "" or what is wrong.
type check func(d *inventory.Device, p *inventory.Port, e entry) string

func same(want func(d *inventory.Device, p *inventory.Port) string) check {
	return func(d *inventory.Device, p *inventory.Port, e entry) string {
		// "ACTIVE (4)": the code is the field's own.
		value, _, _ := strings.Cut(e.value, " (")
		if w := want(d, p); value != w || len(e.lines) > 0 {
			return fmt.Sprintf("we show %q", w)
		}
		return ""
	}
}

// masked checks a list of flags: each name that is printed is shown, unknown
// ones are in the mask.
func masked(of func(d *inventory.Device, p *inventory.Port) *inventory.Flags, format string, rename func(string) string) check {
	return func(d *inventory.Device, p *inventory.Port, e entry) string {
		f := of(d, p)
		if f == nil {
			return "we show nothing"
		}
		if w := fmt.Sprintf(format, f.Value.Value); format != "" && !strings.EqualFold(e.value, w) {
			return "we show " + w
		}
		for _, line := range e.lines {
			if digits, ok := strings.CutPrefix(line, "Unknown flags: 0x"); ok {
				if bits, err := strconv.ParseUint(digits, 16, 64); err != nil || f.Value.Value&bits != bits {
					return fmt.Sprintf("%s is not in %v", line, f)
				}
				continue
			}
			name := rename(line)
			if name == "" && f.Value.Value == 0 || slices.Contains(f.Names, name) {
				continue
			}
			return fmt.Sprintf("%s (%s) is not in %v", line, name, f)
		}
		return ""
	}
}

func plain(s string) string { return s }

// odp translates the names of on-demand paging.
func odp(of func(*inventory.ODP) *inventory.Flags) check {
	return masked(func(d *inventory.Device, _ *inventory.Port) *inventory.Flags {
		if d.ODP == nil {
			return nil
		}
		return of(d.ODP)
	}, "", func(s string) string {
		switch s {
		case "NO SUPPORT":
			return ""
		case "SUPPORT_SRQ":
			return "SRQ_RECV"
		}
		return strings.TrimPrefix(s, "SUPPORT_")
	})
}

func limit(of func(*inventory.Limits) any) check {
	return same(func(d *inventory.Device, _ *inventory.Port) string {
		if d.Limits == nil {
			return "null"
		}
		return fmt.Sprint(of(d.Limits))
	})
}

func device(of func(*inventory.Device) string) check {
	return same(func(d *inventory.Device, _ *inventory.Port) string { return of(d) })
}

func port(of func(*inventory.Port) string) check {
	return same(func(_ *inventory.Device, p *inventory.Port) string { return of(p) })
}

// supported checks sections that are a line "… not supported" where they are 0.
func supported(of func(*inventory.Device) (value string, zero bool)) check {
	return func(d *inventory.Device, _ *inventory.Port, e entry) string {
		w, zero := of(d)
		if e.value == "not supported" && zero || e.value == w {
			return ""
		}
		return "we show " + w
	}
}

func qpTypes(of func(*inventory.Offloads) *inventory.Flags) check {
	return masked(func(d *inventory.Device, _ *inventory.Port) *inventory.Flags { return of(d.Offloads) }, "",
		func(s string) string { return strings.TrimPrefix(s, "SUPPORT_") })
}

func count(of func(*inventory.Device) any) check {
	return device(func(d *inventory.Device) string { return fmt.Sprint(of(d)) })
}

var devinfoChecks = map[string]check{
	"hca_id":                    device(func(d *inventory.Device) string { return d.Name }),
	"transport":                 device(func(d *inventory.Device) string { return word(d.Transport) }),
	"fw_ver":                    device(func(d *inventory.Device) string { return word(d.Firmware) }),
	"node_guid":                 device(func(d *inventory.Device) string { return word(d.NodeGUID) }),
	"sys_image_guid":            device(func(d *inventory.Device) string { return word(d.SystemGUID) }),
	"vendor_id":                 device(func(d *inventory.Device) string { return number("0x%04x", d.VendorID) }),
	"vendor_part_id":            device(func(d *inventory.Device) string { return word(d.PartID) }),
	"hw_ver":                    device(func(d *inventory.Device) string { return number("0x%X", d.Hardware) }),
	"board_id":                  device(func(d *inventory.Device) string { return word(d.BoardID) }),
	"phys_port_cnt":             device(func(d *inventory.Device) string { return word(d.PortCount) }),
	"max_mr_size":               limit(func(l *inventory.Limits) any { return fmt.Sprintf("0x%x", l.MaxMRSize) }),
	"page_size_cap":             limit(func(l *inventory.Limits) any { return fmt.Sprintf("0x%x", l.PageSizes.Value.Value) }),
	"max_qp":                    limit(func(l *inventory.Limits) any { return l.MaxQP }),
	"max_qp_wr":                 limit(func(l *inventory.Limits) any { return l.MaxQPWR }),
	"max_sge":                   limit(func(l *inventory.Limits) any { return l.MaxSGE }),
	"max_sge_rd":                limit(func(l *inventory.Limits) any { return l.MaxSGERead }),
	"max_cq":                    limit(func(l *inventory.Limits) any { return l.MaxCQ }),
	"max_cqe":                   limit(func(l *inventory.Limits) any { return l.MaxCQE }),
	"max_mr":                    limit(func(l *inventory.Limits) any { return l.MaxMR }),
	"max_pd":                    limit(func(l *inventory.Limits) any { return l.MaxPD }),
	"max_mw":                    limit(func(l *inventory.Limits) any { return l.MaxMW }),
	"max_ah":                    limit(func(l *inventory.Limits) any { return l.MaxAH }),
	"max_srq":                   limit(func(l *inventory.Limits) any { return l.MaxSRQ }),
	"max_srq_wr":                limit(func(l *inventory.Limits) any { return l.MaxSRQWR }),
	"max_srq_sge":               limit(func(l *inventory.Limits) any { return l.MaxSRQSGE }),
	"max_pkeys":                 limit(func(l *inventory.Limits) any { return l.MaxPKeys }),
	"max_qp_rd_atom":            limit(func(l *inventory.Limits) any { return l.MaxQPReadAtomic }),
	"max_ee_rd_atom":            limit(func(l *inventory.Limits) any { return l.MaxEEReadAtomic }),
	"max_res_rd_atom":           limit(func(l *inventory.Limits) any { return l.MaxResReadAtomic }),
	"max_qp_init_rd_atom":       limit(func(l *inventory.Limits) any { return l.MaxQPInitReadAtomic }),
	"max_ee_init_rd_atom":       limit(func(l *inventory.Limits) any { return l.MaxEEInitReadAtomic }),
	"max_ee":                    limit(func(l *inventory.Limits) any { return l.MaxEE }),
	"max_rdd":                   limit(func(l *inventory.Limits) any { return l.MaxRDD }),
	"max_raw_ipv6_qp":           limit(func(l *inventory.Limits) any { return l.MaxRawIPv6QP }),
	"max_raw_ethy_qp":           limit(func(l *inventory.Limits) any { return l.MaxRawEthernetQP }),
	"max_mcast_grp":             limit(func(l *inventory.Limits) any { return l.MaxMulticastGroups }),
	"max_mcast_qp_attach":       limit(func(l *inventory.Limits) any { return l.MaxMulticastQPs }),
	"max_total_mcast_qp_attach": limit(func(l *inventory.Limits) any { return l.MaxTotalMulticastQPs }),
	"max_fmr":                   limit(func(l *inventory.Limits) any { return l.MaxFMR }),
	"max_map_per_fmr":           limit(func(l *inventory.Limits) any { return l.MaxMapPerFMR }),
	"local_ca_ack_delay":        limit(func(l *inventory.Limits) any { return l.LocalAckDelay }),
	"atomic_cap":                limit(func(l *inventory.Limits) any { return l.AtomicCap }),
	"max_wq_type_rq":            limit(func(l *inventory.Limits) any { return word(l.MaxWQ) }),
	"max_dm_size":               limit(func(l *inventory.Limits) any { return word(l.MaxDMSize) }),
	"num_comp_vectors":          device(func(d *inventory.Device) string { return word(d.Vectors) }),

	"device_cap_flags": masked(func(d *inventory.Device, _ *inventory.Port) *inventory.Flags {
		low := *d.Capabilities
		low.Value.Value &= 1<<32 - 1
		return &low
	}, "0x%08x", plain),
	"device_cap_flags_ex": masked(func(d *inventory.Device, _ *inventory.Port) *inventory.Flags { return d.Capabilities }, "0x%X", plain),
	"general_odp_caps": func(d *inventory.Device, _ *inventory.Port, e entry) string {
		if d.ODP == nil || d.ODP.Supported != slices.Contains(e.lines, "ODP_SUPPORT") || d.ODP.Implicit != slices.Contains(e.lines, "ODP_SUPPORT_IMPLICIT") {
			return fmt.Sprintf("we show %+v", d.ODP)
		}
		return ""
	},
	"rc_odp_caps":  odp(func(o *inventory.ODP) *inventory.Flags { return &o.RC }),
	"uc_odp_caps":  odp(func(o *inventory.ODP) *inventory.Flags { return &o.UC }),
	"ud_odp_caps":  odp(func(o *inventory.ODP) *inventory.Flags { return &o.UD }),
	"xrc_odp_caps": odp(func(o *inventory.ODP) *inventory.Flags { return &o.XRC }),
	"completion_timestamp_mask": supported(func(d *inventory.Device) (string, bool) {
		return fmt.Sprintf("0x%016x", d.Clock.TimestampMask.Value), d.Clock.TimestampMask.Value == 0
	}),
	"hca_core_clock": device(func(d *inventory.Device) string { return fmt.Sprintf("%dkHZ", d.Clock.CoreKHz) }),
	"core clock":     supported(func(d *inventory.Device) (string, bool) { return fmt.Sprint(d.Clock.CoreKHz), d.Clock.CoreKHz == 0 }),
	"raw packet caps": masked(func(d *inventory.Device, _ *inventory.Port) *inventory.Flags { return &d.Offloads.RawPacketFlags }, "", func(s string) string {
		return map[string]string{
			"C-VLAN stripping offload": "CVLAN_STRIPPING", "Scatter FCS offload": "SCATTER_FCS", "IP csum offload": "IP_CSUM", "Delay drop": "DELAY_DROP",
		}[s]
	}),

	"tso_caps":                                heading,
	"tso_caps.max_tso":                        count(func(d *inventory.Device) any { return d.Offloads.TSOMax }),
	"tso_caps.supported_qp":                   qpTypes(func(o *inventory.Offloads) *inventory.Flags { return &o.TSOQPTypes }),
	"rss_caps":                                heading,
	"rss_caps.max_rwq_indirection_tables":     count(func(d *inventory.Device) any { return d.Offloads.RSSTables }),
	"rss_caps.max_rwq_indirection_table_size": count(func(d *inventory.Device) any { return d.Offloads.RSSTableSize }),
	"rss_caps.rx_hash_function":               device(func(d *inventory.Device) string { return number("0x%x", &d.Offloads.RSSFunctions) }),
	"rss_caps.rx_hash_fields_mask":            device(func(d *inventory.Device) string { return number("0x%X", &d.Offloads.RSSFields) }),
	"rss_caps.supported_qp":                   qpTypes(func(o *inventory.Offloads) *inventory.Flags { return &o.RSSQPTypes }),
	"packet_pacing_caps":                      heading,
	"packet_pacing_caps.qp_rate_limit_min":    device(func(d *inventory.Device) string { return fmt.Sprintf("%dkbps", d.Offloads.PacingMin) }),
	"packet_pacing_caps.qp_rate_limit_max":    device(func(d *inventory.Device) string { return fmt.Sprintf("%dkbps", d.Offloads.PacingMax) }),
	"packet_pacing_caps.supported_qp":         qpTypes(func(o *inventory.Offloads) *inventory.Flags { return &o.PacingQPTypes }),
	"tag matching": supported(func(d *inventory.Device) (string, bool) {
		return fmt.Sprint(d.TagMatching.MaxTags), d.TagMatching.MaxTags == 0
	}),
	"max_rndv_hdr_size":                count(func(d *inventory.Device) any { return d.TagMatching.MaxRendezvousHeader }),
	"max_num_tags":                     count(func(d *inventory.Device) any { return d.TagMatching.MaxTags }),
	"max_ops":                          count(func(d *inventory.Device) any { return d.TagMatching.MaxOps }),
	"cq moderation caps":               heading,
	"cq moderation caps.max_cq_count":  limit(func(l *inventory.Limits) any { return word(l.MaxModerationCount) }),
	"cq moderation caps.max_cq_period": limit(func(l *inventory.Limits) any { return word(l.MaxModerationPeriod) + " us" }),

	"port":           port(func(p *inventory.Port) string { return fmt.Sprint(p.Number) }),
	"state":          port(func(p *inventory.Port) string { return "PORT_" + word(p.State) }),
	"max_mtu":        port(func(p *inventory.Port) string { return word(p.MaxMTU) }),
	"active_mtu":     port(func(p *inventory.Port) string { return word(p.ActiveMTU) }),
	"sm_lid":         port(func(p *inventory.Port) string { return number("%d", p.SMLID) }),
	"port_lid":       port(func(p *inventory.Port) string { return number("%d", p.LID) }),
	"port_lmc":       port(func(p *inventory.Port) string { return fmt.Sprintf("0x%02x", *p.LMC) }),
	"link_layer":     port(func(p *inventory.Port) string { return word(p.LinkLayer) }),
	"max_msg_sz":     port(func(p *inventory.Port) string { return fmt.Sprintf("0x%x", *p.MaxMessage) }),
	"sm_sl":          port(func(p *inventory.Port) string { return word(p.SMSL) }),
	"pkey_tbl_len":   port(func(p *inventory.Port) string { return word(p.PKeyTable) }),
	"gid_tbl_len":    port(func(p *inventory.Port) string { return word(p.GIDTable) }),
	"port_cap_flags": masked(func(_ *inventory.Device, p *inventory.Port) *inventory.Flags { return p.Capabilities }, "0x%08x", plain),
	"port_cap_flags2": masked(func(_ *inventory.Device, p *inventory.Port) *inventory.Flags { return p.Capabilities2 }, "0x%04x",
		func(s string) string { return strings.Replace(s, "SUPPORTED", "SUP", 1) }),
	"max_vl_num": func(_ *inventory.Device, p *inventory.Port, e entry) string {
		value, _, _ := strings.Cut(e.value, " (")
		if value == word(p.VirtualLanes) || value == "invalid value" && p.VirtualLanes == nil {
			return ""
		}
		return "we show " + word(p.VirtualLanes)
	},
	"bad_pkey_cntr":   port(func(p *inventory.Port) string { return fmt.Sprintf("0x%x", *p.BadPKeys) }),
	"qkey_viol_cntr":  port(func(p *inventory.Port) string { return fmt.Sprintf("0x%x", *p.QKeyViolations) }),
	"subnet_timeout":  port(func(p *inventory.Port) string { return word(p.SubnetTimeout) }),
	"init_type_reply": port(func(p *inventory.Port) string { return word(p.InitTypeReply) }),
	"active_width":    port(func(p *inventory.Port) string { return word(p.Width) + "X" }),
	"active_speed":    port(func(p *inventory.Port) string { return fmt.Sprintf("%.1f Gbps", float64(*p.LaneRate)/1000) }),
	"phys_state": port(func(p *inventory.Port) string {
		return strings.NewReplacer("PORT_CONFIGURATION_TRAINING", "PORT_CONFIGURATION TRAINNING", "PHY_TEST", "PHY TEST").Replace(word(p.PhysicalState))
	}),
}

// heading is a line that only announces others.
func heading(_ *inventory.Device, _ *inventory.Port, e entry) string {
	if e.value != "" || len(e.lines) > 0 {
		return "it was taken for a heading"
	}
	return ""
}

var devinfoGID = regexp.MustCompile(`^GID\[ *(\d+)\]$`)

// gidCheck compares an entry of the GID table.
func gidCheck(p *inventory.Port, index, value string) string {
	text, kind, _ := strings.Cut(value, ", ")
	for _, g := range p.GIDs {
		if strconv.Itoa(g.Index) != index {
			continue
		}
		addr, err := netip.ParseAddr(text)
		ours, ourErr := netip.ParseAddr(g.GID)
		if err != nil || ourErr != nil || addr.As16() != ours.As16() || kind != "" && kind != word(g.Type) {
			return fmt.Sprintf("we show %s, %s", g.GID, word(g.Type))
		}
		return ""
	}
	return "we show no such entry"
}

// Every line that ibv_devinfo -v prints must be known here, and be what we show.
func TestDevicesShowsAllThatDevinfoShows(t *testing.T) {
	name := labDevice(t)
	entries := parseDevinfo(t, output(t, "ibv_devinfo", "-v", "-d", name))
	inv := shown(t, "--device", name)
	if len(inv.Problems) > 0 {
		t.Errorf("problems: %+v", inv.Problems)
	}
	d := &inv.Devices[0]
	var p *inventory.Port
	gids := 0
	for _, e := range entries {
		if e.key == "port" {
			n, err := strconv.Atoi(e.value)
			i := slices.IndexFunc(d.Ports, func(p inventory.Port) bool { return p.Number == n })
			if err != nil || i < 0 {
				t.Fatalf("port %s is missing", e.value)
			}
			p = &d.Ports[i]
		}
		wrong := ""
		if m := devinfoGID.FindStringSubmatch(e.key); m != nil {
			gids++
			wrong = gidCheck(p, m[1], e.value)
		} else if c := devinfoChecks[e.key]; c != nil {
			wrong = c(d, p, e)
		} else {
			wrong = "we lack it"
		}
		if wrong != "" {
			t.Errorf("ibv_devinfo prints %s %q %q: %s", e.key, e.value, e.lines, wrong)
		}
	}
	if len(entries) < 70 || d.Protocol != nil && *d.Protocol == "roce" && gids == 0 {
		t.Errorf("only %d fields and %d GIDs were compared", len(entries), gids)
	}
	t.Logf("%d fields and %d GIDs of ibv_devinfo compared", len(entries), gids)
}

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

// sysfs has a file for most of it; each file must be known here.
func TestDevicesShowsAllThatSysfsShows(t *testing.T) {
	name := labDevice(t)
	d := &shown(t, "--device", name).Devices[0]
	p := &d.Ports[0]
	root := "/sys/class/infiniband/" + name
	code := func(s string) string { _, s, _ = strings.Cut(s, ": "); return s }
	rate := fmt.Sprintf("%g Gb/sec (%sX %s)", float64(*p.Rate)/1000, word(p.Width), word(p.SpeedName))
	ours := map[string]string{
		"node_desc": word(d.NodeDesc), "node_guid": word(d.NodeGUID), "sys_image_guid": word(d.SystemGUID), "parent": word(p.Netdev),
		"hca_type": word(d.HCAType), "board_id": word(d.BoardID), "hw_rev": number("%x", d.Hardware),
		"ports/1/state": word(p.State), "ports/1/rate": rate, "ports/1/lid": number("0x%x", p.LID), "ports/1/sm_lid": number("0x%x", p.SMLID),
		"ports/1/sm_sl": word(p.SMSL), "ports/1/lid_mask_count": word(p.LMC), "ports/1/link_layer": word(p.LinkLayer),
		"ports/1/cap_mask": number("0x%08x", &p.Capabilities.Value),
	}
	for _, folder := range []string{"", "ports/1"} {
		files, err := os.ReadDir(filepath.Join(root, folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !f.Type().IsRegular() || f.Name() == "uevent" {
				continue
			}
			key := filepath.Join(folder, f.Name())
			b, err := os.ReadFile(filepath.Join(root, key))
			if err != nil {
				t.Errorf("%s: %v", key, err)
				continue
			}
			want, got := strings.TrimSpace(string(b)), ours[key]
			switch key {
			case "fw_ver": // the library prints 0.0.0 for none
				if want == "" {
					continue
				}
				got = word(d.Firmware)
			case "node_type":
				want, got = strings.ToLower(code(want)), word(d.NodeType)
			case "ports/1/state":
				want = code(want)
			case "ports/1/phys_state":
				want, got = strings.ToUpper(code(want)), strings.ReplaceAll(word(p.PhysicalState), "_", "")
			}
			if got != want {
				t.Errorf("sysfs: %s is %q, we show %q", key, want, got)
			}
		}
	}
	used := 0
	files, err := os.ReadDir(root + "/ports/1/gids")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(root + "/ports/1/gids/" + f.Name())
		text := strings.TrimSpace(string(b))
		if err != nil || text == "0000:0000:0000:0000:0000:0000:0000:0000" {
			continue
		}
		used++
		if !slices.ContainsFunc(p.GIDs, func(g inventory.GID) bool { return g.GID == text && strconv.Itoa(g.Index) == f.Name() }) {
			t.Errorf("GID %s %s is missing", f.Name(), text)
		}
	}
	if used != len(p.GIDs) {
		t.Errorf("sysfs has %d GIDs, we show %d", used, len(p.GIDs))
	}
	driver := strings.TrimRight(name, "0123456789")
	if word(d.Driver) != driver || word(d.Software) != "true" || d.PCI != nil || d.NUMANode != nil {
		t.Errorf("driver %s, software %s, function %+v, NUMA node %v", word(d.Driver), word(d.Software), d.PCI, word(d.NUMANode))
	}
	if _, err := os.Stat("/sys/module/" + word(d.Module)); err != nil {
		t.Errorf("kernel module: %v", err)
	}
	if word(d.DMABuf) != "false" {
		t.Errorf("dma-buf import is %s; no software driver imports", word(d.DMABuf))
	}
	if i := slices.IndexFunc(d.Netdevs, func(n inventory.Netdev) bool { return n.Name == *p.Netdev }); i < 0 || d.Netdevs[i].PCIAddress == nil {
		t.Errorf("network devices %+v", d.Netdevs)
	}
}

func TestDevicesErrorsInTheLab(t *testing.T) {
	name := labDevice(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--device", "mlx5_77"}, exitNoDevice, name},
		{[]string{"--watch", "--device", "mlx5_77"}, exitNoDevice, name},
		{[]string{"--port", "9"}, exitUsage, name + " has port 1"},
		{[]string{"--watch", "--device", name, "--port", "9"}, exitUsage, name + " has port 1"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"devices"}, c.args...), strings.NewReader(""), &stdout, &stderr)
		if code != c.code || !strings.Contains(stderr.String(), c.want) || stdout.Len() > 0 {
			t.Errorf("%q: exit %d, stdout %q, stderr %q; want exit %d and %q", c.args, code, &stdout, &stderr, c.code, c.want)
		}
	}
}

// A user who may not open the device sees what the kernel tells everyone.
func TestDevicesWithoutPermission(t *testing.T) {
	name := labDevice(t)
	d := &shown(t, "--device", name).Devices[0]
	info, err := os.Stat(*d.CharDevice)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(*d.CharDevice, 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(*d.CharDevice, info.Mode())
	cmd := exec.Command("peerdirect", "devices", "--json", "--device", name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var inv inventory.Inventory
	if err != nil || json.Unmarshal(out, &inv) != nil {
		t.Fatalf("%v\n%s%s", err, out, &stderr)
	}
	if len(inv.Problems) != 1 || inv.Problems[0].Class != "permission" || !strings.Contains(stderr.String(), *d.CharDevice) {
		t.Errorf("problems %+v, stderr %q", inv.Problems, &stderr)
	}
	p := inv.Devices[0].Ports[0]
	if word(p.State) != word(d.Ports[0].State) || word(p.Netdev) != word(d.Ports[0].Netdev) || len(p.GIDs) != len(d.Ports[0].GIDs) || inv.Devices[0].Resources == nil {
		t.Errorf("port %+v, resources %v", p, inv.Devices[0].Resources)
	}
	if inv.Devices[0].Limits != nil || inv.Devices[0].DMABuf != nil || p.MaxMTU != nil {
		t.Errorf("limits %v, dma-buf %v and MTU %v can not be known", inv.Devices[0].Limits, inv.Devices[0].DMABuf, p.MaxMTU)
	}
}

// Without rdma-core the kernel's part is shown, and the command fails.
func TestDevicesWithoutLibrary(t *testing.T) {
	name := labDevice(t)
	library := shown(t).Library
	cmd := exec.Command("unshare", "-m", "sh", "-c", `mount --bind /dev/null "$0" && exec peerdirect devices --device "$1"`, *library, name)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != exitNoDevice {
		t.Errorf("exit %d, %v", code, err)
	}
	if strings.Count(stderr.String(), "\n") != 1 || !strings.Contains(stderr.String(), "rdma-core is not installed") || !strings.Contains(stdout.String(), name+" ") {
		t.Errorf("stdout\n%s\nstderr\n%s", &stdout, &stderr)
	}
}

// watching runs peerdirect devices --watch --json.
type watching struct {
	cmd     *exec.Cmd
	records chan inventory.Record
	seen    []inventory.Record
	stderr  bytes.Buffer
}

func watch(t *testing.T, args ...string) *watching {
	t.Helper()
	w := &watching{cmd: exec.Command("peerdirect", append([]string{"devices", "--watch", "--json", "--interval", "500ms"}, args...)...), records: make(chan inventory.Record, 1000)}
	w.cmd.Stderr = &w.stderr
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.records)
		for s := bufio.NewScanner(out); s.Scan(); {
			var r inventory.Record
			if json.Unmarshal(s.Bytes(), &r) == nil && r.Schema == inventory.WatchSchema {
				w.records <- r
			}
		}
	}()
	t.Cleanup(func() {
		if w.cmd.ProcessState == nil {
			w.cmd.Process.Kill()
			w.cmd.Wait()
		}
	})
	return w
}

// expect waits for a record, which may have come already.
func (w *watching) expect(t *testing.T, what string, ok func(inventory.Record) bool) {
	t.Helper()
	if slices.ContainsFunc(w.seen, ok) {
		return
	}
	timeout := time.After(30 * time.Second)
	for {
		select {
		case r, open := <-w.records:
			if !open {
				t.Fatalf("%s: the watch ended: %s", what, &w.stderr)
			}
			w.seen = append(w.seen, r)
			if ok(r) {
				return
			}
		case <-timeout:
			var b strings.Builder
			for _, r := range w.seen {
				r.WriteText(&b)
			}
			t.Fatalf("%s: no such record in 30 s; seen:\n%s%s", what, &b, &w.stderr)
		}
	}
}

func event(kind, device string) func(inventory.Record) bool {
	return func(r inventory.Record) bool { return r.Event == kind && word(r.Device) == device }
}

func changed(device, field, to string) func(inventory.Record) bool {
	return func(r inventory.Record) bool {
		return event(inventory.EventChanged, device)(r) && word(r.Field) == field && strings.HasPrefix(word(r.To), to) && word(r.Port) == "1"
	}
}

func notified(source, device, detail string) func(inventory.Record) bool {
	return func(r inventory.Record) bool {
		return event(inventory.EventNotified, device)(r) && r.Source == source && strings.HasPrefix(word(r.Detail), detail)
	}
}

func TestWatchSeesDevicesAndPortsComeAndGo(t *testing.T) {
	name := labDevice(t)
	kind := strings.TrimRight(name, "0123456789")
	const netdev, second = "pdwatch0", "pdwatch"
	exec.Command("modprobe", "dummy").Run()
	output(t, "ip", "link", "add", netdev, "type", "dummy")
	t.Cleanup(func() { exec.Command("ip", "link", "del", netdev).Run() })
	output(t, "ip", "link", "set", netdev, "up")

	monitor := shown(t, "--device", name).System.Monitor
	w := watch(t)
	w.expect(t, "the device at the start", event(inventory.EventPresent, name))
	output(t, "rdma", "link", "add", second, "type", kind, "netdev", netdev)
	t.Cleanup(func() { exec.Command("rdma", "link", "del", second).Run() })
	w.expect(t, "link add", event(inventory.EventAdded, second))
	w.expect(t, "the new port", event(inventory.EventPresent, second))
	if monitor {
		w.expect(t, "the kernel's notification", notified("netlink", second, "REGISTER"))
		w.expect(t, "the kernel's notification", notified("netlink", second, "NETDEV_ATTACH "+netdev))
	}

	output(t, "ip", "link", "set", netdev, "down")
	w.expect(t, "port down", changed(second, "state", "DOWN"))
	w.expect(t, "the device's event", notified("async", second, "port error"))
	output(t, "ip", "link", "set", netdev, "up")
	w.expect(t, "port up", changed(second, "state", "ACTIVE"))
	w.expect(t, "the device's event", notified("async", second, "port active"))
	if kind == "rxe" {
		output(t, "ip", "addr", "add", "198.51.100.7/24", "dev", netdev)
		w.expect(t, "the new GID", func(r inventory.Record) bool {
			return event(inventory.EventChanged, second)(r) && strings.HasPrefix(word(r.Field), "gids[") && word(r.To) == "198.51.100.7 RoCE v2"
		})
		w.expect(t, "the device's event", notified("async", second, "GID change"))
	}

	// The watch holds the device open; it must not hold up its removal.
	start := time.Now()
	output(t, "rdma", "link", "del", second)
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("removing the device took %v while it was watched", took)
	}
	w.expect(t, "link del", event(inventory.EventRemoved, second))
	if monitor {
		w.expect(t, "the kernel's notification", notified("netlink", second, "UNREGISTER"))
	}

	if err := w.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for range w.records {
	}
	if err := w.cmd.Wait(); err != nil || w.stderr.Len() > 0 {
		t.Errorf("interrupted, the watch ended with %v: %s", err, &w.stderr)
	}
}
