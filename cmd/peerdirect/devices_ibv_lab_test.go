//go:build lab

package main

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/inventory"
)

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

func ofDevice(of func(*inventory.Device) string) check {
	return same(func(d *inventory.Device, _ *inventory.Port) string { return of(d) })
}

func ofPort(of func(*inventory.Port) string) check {
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
	return ofDevice(func(d *inventory.Device) string { return fmt.Sprint(of(d)) })
}

var devinfoChecks = map[string]check{
	"hca_id":                    ofDevice(func(d *inventory.Device) string { return d.Name }),
	"transport":                 ofDevice(func(d *inventory.Device) string { return word(d.Transport) }),
	"fw_ver":                    ofDevice(func(d *inventory.Device) string { return word(d.Firmware) }),
	"node_guid":                 ofDevice(func(d *inventory.Device) string { return word(d.NodeGUID) }),
	"sys_image_guid":            ofDevice(func(d *inventory.Device) string { return word(d.SystemGUID) }),
	"vendor_id":                 ofDevice(func(d *inventory.Device) string { return number("0x%04x", d.VendorID) }),
	"vendor_part_id":            ofDevice(func(d *inventory.Device) string { return word(d.PartID) }),
	"hw_ver":                    ofDevice(func(d *inventory.Device) string { return number("0x%X", d.Hardware) }),
	"board_id":                  ofDevice(func(d *inventory.Device) string { return word(d.BoardID) }),
	"phys_port_cnt":             ofDevice(func(d *inventory.Device) string { return word(d.PortCount) }),
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
	"num_comp_vectors":          ofDevice(func(d *inventory.Device) string { return word(d.Vectors) }),

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
	"hca_core_clock": ofDevice(func(d *inventory.Device) string { return fmt.Sprintf("%dkHZ", d.Clock.CoreKHz) }),
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
	"rss_caps.rx_hash_function":               ofDevice(func(d *inventory.Device) string { return number("0x%x", &d.Offloads.RSSFunctions) }),
	"rss_caps.rx_hash_fields_mask":            ofDevice(func(d *inventory.Device) string { return number("0x%X", &d.Offloads.RSSFields) }),
	"rss_caps.supported_qp":                   qpTypes(func(o *inventory.Offloads) *inventory.Flags { return &o.RSSQPTypes }),
	"packet_pacing_caps":                      heading,
	"packet_pacing_caps.qp_rate_limit_min":    ofDevice(func(d *inventory.Device) string { return fmt.Sprintf("%dkbps", d.Offloads.PacingMin) }),
	"packet_pacing_caps.qp_rate_limit_max":    ofDevice(func(d *inventory.Device) string { return fmt.Sprintf("%dkbps", d.Offloads.PacingMax) }),
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

	"port":           ofPort(func(p *inventory.Port) string { return fmt.Sprint(p.Number) }),
	"state":          ofPort(func(p *inventory.Port) string { return "PORT_" + word(p.State) }),
	"max_mtu":        ofPort(func(p *inventory.Port) string { return word(p.MaxMTU) }),
	"active_mtu":     ofPort(func(p *inventory.Port) string { return word(p.ActiveMTU) }),
	"sm_lid":         ofPort(func(p *inventory.Port) string { return number("%d", p.SMLID) }),
	"port_lid":       ofPort(func(p *inventory.Port) string { return number("%d", p.LID) }),
	"port_lmc":       ofPort(func(p *inventory.Port) string { return fmt.Sprintf("0x%02x", *p.LMC) }),
	"link_layer":     ofPort(func(p *inventory.Port) string { return word(p.LinkLayer) }),
	"max_msg_sz":     ofPort(func(p *inventory.Port) string { return fmt.Sprintf("0x%x", *p.MaxMessage) }),
	"sm_sl":          ofPort(func(p *inventory.Port) string { return word(p.SMSL) }),
	"pkey_tbl_len":   ofPort(func(p *inventory.Port) string { return word(p.PKeyTable) }),
	"gid_tbl_len":    ofPort(func(p *inventory.Port) string { return word(p.GIDTable) }),
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
	"bad_pkey_cntr":   ofPort(func(p *inventory.Port) string { return fmt.Sprintf("0x%x", *p.BadPKeys) }),
	"qkey_viol_cntr":  ofPort(func(p *inventory.Port) string { return fmt.Sprintf("0x%x", *p.QKeyViolations) }),
	"subnet_timeout":  ofPort(func(p *inventory.Port) string { return word(p.SubnetTimeout) }),
	"init_type_reply": ofPort(func(p *inventory.Port) string { return word(p.InitTypeReply) }),
	"active_width":    ofPort(func(p *inventory.Port) string { return word(p.Width) + "X" }),
	"active_speed":    ofPort(func(p *inventory.Port) string { return fmt.Sprintf("%.1f Gbps", float64(*p.LaneRate)/1000) }),
	"phys_state": ofPort(func(p *inventory.Port) string {
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
