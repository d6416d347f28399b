//go:build lab

package verbs

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// devinfo runs rdma-core's own tool, which asks the same questions by itself.
func devinfo(t *testing.T, dev *Device) map[string]string {
	out, err := exec.Command("ibv_devinfo", "-v", "-d", dev.Name()).Output()
	if err != nil {
		t.Skip("needs ibv_devinfo: ", err)
	}
	fields := make(map[string]string)
	for line := range strings.SplitSeq(string(out), "\n") {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[key] = strings.TrimSpace(value)
		}
	}
	return fields
}

func TestAttributesAreThoseOfIbvDevinfo(t *testing.T) {
	dev := device(t)
	a, err := dev.Attr()
	if err != nil {
		t.Fatal(err)
	}
	p, err := dev.Port(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", a)
	t.Logf("%v; %v; %v", a.Caps, a.ODP.RC, p.Caps())
	if lib, _ := Library(); lib == "" || !a.Extended {
		t.Errorf("extended query %v, library %q", a.Extended, lib)
	}
	info := devinfo(t, dev)
	for key, want := range map[string]any{
		"fw_ver":                    a.FirmwareVersion,
		"node_guid":                 a.NodeGUID,
		"sys_image_guid":            a.SysImageGUID,
		"vendor_id":                 fmt.Sprintf("0x%04x", a.VendorID),
		"vendor_part_id":            a.VendorPartID,
		"hw_ver":                    fmt.Sprintf("0x%X", a.HardwareVersion),
		"phys_port_cnt":             a.Ports,
		"max_mr_size":               fmt.Sprintf("0x%x", a.MaxMRSize),
		"page_size_cap":             fmt.Sprintf("0x%x", a.PageSizeCap),
		"max_qp":                    a.MaxQP,
		"max_qp_wr":                 a.MaxQPWR,
		"device_cap_flags":          fmt.Sprintf("0x%08x", uint32(a.Caps)),
		"max_sge":                   a.MaxSGE,
		"max_sge_rd":                a.MaxSGERead,
		"max_cq":                    a.MaxCQ,
		"max_cqe":                   a.MaxCQE,
		"max_mr":                    a.MaxMR,
		"max_pd":                    a.MaxPD,
		"max_qp_rd_atom":            a.MaxQPReadAtomic,
		"max_res_rd_atom":           a.MaxResReadAtomic,
		"max_qp_init_rd_atom":       a.MaxQPInitReadAtomic,
		"atomic_cap":                fmt.Sprintf("%v (%d)", a.AtomicCap, a.AtomicCap),
		"max_mw":                    a.MaxMW,
		"max_mcast_grp":             a.MaxMulticastGroups,
		"max_mcast_qp_attach":       a.MaxMulticastQPs,
		"max_total_mcast_qp_attach": a.MaxTotalMulticastQPs,
		"max_ah":                    a.MaxAH,
		"max_srq":                   a.MaxSRQ,
		"max_pkeys":                 a.MaxPKeys,
		"local_ca_ack_delay":        a.LocalAckDelay,
		"device_cap_flags_ex":       fmt.Sprintf("0x%X", uint64(a.Caps)),
		"max_wq_type_rq":            a.MaxWQ,
		"num_comp_vectors":          dev.Vectors(),
		"state":                     fmt.Sprintf("PORT_%v (%d)", p.State, p.State),
		"max_mtu":                   fmt.Sprintf("%d (%d)", p.MaxMTU.Bytes(), p.MaxMTU),
		"active_mtu":                fmt.Sprintf("%d (%d)", p.ActiveMTU.Bytes(), p.ActiveMTU),
		"link_layer":                p.LinkLayer,
		"max_msg_sz":                fmt.Sprintf("0x%x", p.MaxMsgSize),
		"port_cap_flags":            fmt.Sprintf("0x%08x", p.CapFlags),
		"pkey_tbl_len":              p.PKeyTableLen,
		"gid_tbl_len":               p.GIDTableLen,
		"active_width":              fmt.Sprintf("%s (%d)", p.Width(), p.ActiveWidth),
		"active_speed":              fmt.Sprintf("%s (%d)", p.Speed(), p.ActiveSpeed),
		"phys_state":                fmt.Sprintf("%s (%d)", p.Physical(), p.PhysState),
		"max_vl_num":                fmt.Sprintf("%d (%d)", p.VLs(), p.MaxVLNum),
	} {
		if got, ok := info[key]; ok && strings.HasPrefix(got, "invalid") {
			t.Logf("%s: ibv_devinfo says %s, we say %v", key, got, want)
		} else if ok && got != fmt.Sprint(want) {
			t.Errorf("%s: ibv_devinfo says %q, we say %v", key, got, want)
		} else if !ok {
			t.Logf("%s: not printed by this ibv_devinfo", key)
		}
	}
	for i := range 16 {
		text, ok := info[fmt.Sprintf("GID[%3d]", i)]
		if !ok {
			continue
		}
		g, err := dev.GIDAt(1, i)
		if err != nil {
			t.Errorf("GID %d: %v", i, err)
			continue
		}
		addr, _, _ := strings.Cut(text, ",")
		var want GID
		if err := want.UnmarshalText([]byte(strings.TrimSpace(addr))); err != nil || want != g.GID {
			t.Errorf("GID %d: ibv_devinfo says %s, we say %v (%v)", i, text, g.GID, err)
		}
		if !strings.HasSuffix(text, g.Type.String()) && strings.Contains(text, ",") {
			t.Errorf("GID %d: ibv_devinfo says %s, we say %v", i, text, g.Type)
		}
	}
}

func TestPKeysAreFoundByValue(t *testing.T) {
	dev := device(t)
	keys, err := dev.PKeys(1)
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) == 0 {
		t.Skip("the port has no P_Keys")
	}
	if i, err := dev.PKeyIndex(1, keys[0]); i != 0 || err != nil {
		t.Errorf("P_Key %#x at %d, %v", keys[0], i, err)
	}
	if _, err := dev.PKeyIndex(1, 0x1234); err == nil {
		t.Error("found a P_Key that is not there")
	}
}

func TestTheClockIsReadOrUnsupported(t *testing.T) {
	dev := device(t)
	a, err := dev.Attr()
	if err != nil {
		t.Fatal(err)
	}
	ticks, err := dev.Clock()
	if a.CoreClockKHz == 0 {
		refused(t, err, ErrUnsupported)
		return
	}
	if err != nil || ticks == 0 {
		t.Errorf("clock %d, %v", ticks, err)
	}
}
