package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/peerdirect/peerdirect/internal/inventory"
)

// congestion are counters that tell that congestion control works: they rise where
// all is well.
var congestion = []string{"np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled", "rp_cnp_ignored", "cnp_sent", "cnp_handled", "ecn_marked_pkts", "tx_cnp_pkts", "rx_cnp_pkts", "rx_ecn_marked_pkts", "RxECNMrkd", "cnpHandled", "cnpSent"}

// checkRoCE tells what files say of how RoCE is set, and what they do not.
func checkRoCE(ctx context.Context, s *System) []Finding {
	return s.eachPort(ctx, func(d *inventory.Device, p *inventory.Port) (found []Finding) {
		if kindOf(d, p) != kindRoCE {
			return nil
		}
		subject := portName(d, p)
		var read []string
		take := func(file string) string {
			text, err := s.text(file)
			if err == nil && text != "" {
				read = append(read, "/"+file+": "+strings.Join(strings.Fields(text), " "))
			}
			return text
		}
		// There where somebody made the folder of the device.
		cm := fmt.Sprintf("sys/kernel/config/rdma_cm/%s/ports/%d/", d.Name, p.Number)
		if mode := take(cm + "default_roce_mode"); mode != "" && mode != "RoCE v2" {
			found = append(found, Finding{Subject: subject, Verdict: Warn, Summary: "connection managers make connections of " + mode + " by default, which no router passes on",
				Evidence: read, Remedy: "set RoCE v2", Commands: []string{"echo 'RoCE v2' >" + quote("/"+cm+"default_roce_mode")}})
		}
		if software(d) {
			return found // it has no flow control of its own
		}
		take(cm + "default_roce_tos")
		take(fmt.Sprintf("%s/tc/%d/traffic_class", classFolder(d.Name), p.Number))
		if name := value(p.Netdev); name != "" {
			// Only drivers of the vendor's own package have these.
			take("sys/class/net/" + name + "/qos/pfc")
			take("sys/class/net/" + name + "/qos/trust")
			read = append(read, s.ecn(name)...)
		}
		for _, c := range congestion {
			take(fmt.Sprintf("%s/ports/%d/hw_counters/%s", classFolder(d.Name), p.Number, c))
		}
		if read == nil {
			read = []string{"/sys/class/net/" + value(p.Netdev) + ": no setting of either; the vendor's own driver has some"}
		}
		name := cmpOr(value(p.Netdev), "INTERFACE")
		return append(found, Finding{Subject: subject, Verdict: Unknown,
			Summary:  "whether the port and its switch agree on flow control (PFC) and on marking congestion (ECN) is not in files",
			Evidence: read,
			Remedy: "compare what 'dcb pfc show dev " + name + "' and 'dcb app show dev " + name + "', or the vendor's tool, tell with the switch's settings; 'ethtool -S " + name +
				"' tells of pauses and discards"})
	})
}

// ecn reads on which priorities a driver of the vendor's package answers marked
// packets (np) and slows down (rp).
func (s *System) ecn(name string) (read []string) {
	for _, point := range []string{"roce_np", "roce_rp"} {
		folder := "sys/class/net/" + name + "/ecn/" + point + "/enable"
		entries, err := fs.ReadDir(s.Root, folder)
		if err != nil {
			continue
		}
		var on []string
		for _, e := range entries {
			if _, err := strconv.Atoi(e.Name()); err != nil {
				continue
			}
			if text, _ := s.text(folder + "/" + e.Name()); text == "1" {
				on = append(on, e.Name())
			}
		}
		read = append(read, "/"+folder+": priorities "+cmpOr(strings.Join(on, ","), "none"))
	}
	return read
}

// checkFirmware tells firmware, and where equal devices differ.
func checkFirmware(ctx context.Context, s *System) (found []Finding) {
	inv, _ := s.inventory(ctx)
	versions := map[string]map[string][]string{} // model and board, firmware: devices
	for i := range inv.Devices {
		d := &inv.Devices[i]
		if k := model(d); k != "" && value(d.Firmware) != "" && !software(d) {
			if versions[k] == nil {
				versions[k] = map[string][]string{}
			}
			versions[k][*d.Firmware] = append(versions[k][*d.Firmware], d.Name)
		}
	}
	for _, d := range s.rdmaDevices(ctx) {
		if software(d) {
			continue
		}
		file := classFolder(d.Name) + "/fw_ver"
		if value(d.Firmware) == "" {
			if there, _ := s.exists(file); !there && s.Live {
				continue // its driver has none to tell
			}
			found = append(found, s.missing(d.Name, file, fs.ErrNotExist))
			continue
		}
		f := Finding{Subject: d.Name, Summary: "firmware " + *d.Firmware, Evidence: []string{"/" + file + ": " + *d.Firmware}}
		if all := versions[model(d)]; len(all) > 1 {
			f.Verdict, f.Summary = Warn, "equal devices have different firmware: what one can or does wrong, another does not"
			f.Evidence = nil
			for _, v := range sorted(all) {
				f.Evidence = append(f.Evidence, v+": "+strings.Join(all[v], ", "))
			}
			f.Remedy = "bring all to one version by the vendor's tool"
		}
		found = append(found, f)
	}
	return alike(found)
}
