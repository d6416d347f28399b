package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// The types below are the schema: their json names are stable, their units are
// in those names, and the verbose text prints them in this order under the same
// names. Tags that only the text uses: "group" is a heading, "zero" the word
// for a reported 0, "nil" the word for what is not there ("unknown" otherwise).

// Inventory is a machine's RDMA devices.
type Inventory struct {
	Schema   string    `json:"schema"`
	Kernel   *string   `json:"kernel"`  // release; null of a capture
	Library  *string   `json:"library"` // path of libibverbs
	System   *System   `json:"system"`
	Devices  []Device  `json:"devices"`
	Problems []Problem `json:"problems"`
}

// System is how the kernel's RDMA is set. What a kernel is too old to tell is
// false.
type System struct {
	SharedNamespaces bool `json:"netns_shared"`
	CopyOnFork       bool `json:"copy_on_fork"`
	PrivilegedQKey   bool `json:"privileged_qkey"`
	Monitor          bool `json:"monitor"` // it notifies of changes
}

// Problem is a part that is missing, and why.
type Problem struct {
	Device *string `json:"device"`
	Port   *int    `json:"port"`
	Part   string  `json:"part"`  // sysfs, netlink, verbs
	Class  string  `json:"class"` // permission, no_library, no_device, unsupported, failed
	Error  string  `json:"error"`
}

func (e *Error) problem() Problem {
	p := Problem{Part: e.Part, Class: "failed", Error: e.Err.Error()}
	if e.Device != "" {
		p.Device = new(e.Device)
	}
	if e.Port != 0 {
		p.Port = new(e.Port)
	}
	for _, c := range []struct {
		err  error
		name string
	}{{fs.ErrPermission, "permission"}, {ErrNoLibrary, "no_library"}, {ErrNoDevice, "no_device"}, {errors.ErrUnsupported, "unsupported"}} {
		if errors.Is(e.Err, c.err) {
			p.Class = c.name
			break
		}
	}
	return p
}

// Hex is a number that is an identifier or a mask. In JSON it is text, since
// many readers round numbers of 64 bits.
type Hex struct {
	Value uint64
	Width int // digits at least
}

func hex(v uint64, width int) *Hex { return &Hex{v, width} }

func (h Hex) String() string { return fmt.Sprintf("0x%0*x", h.Width, h.Value) }

// MarshalText prints the number with its prefix.
func (h Hex) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (h *Hex) UnmarshalText(text []byte) error {
	digits := strings.TrimPrefix(string(text), "0x")
	v, err := strconv.ParseUint(digits, 16, 64)
	*h = Hex{v, len(digits)}
	return err
}

// Flags is a mask with the names of its bits; bits without a name are one
// number.
type Flags struct {
	Value Hex      `json:"value"`
	Names []string `json:"names"`
}

// flags makes Flags of a mask and its names as "A|B|0x80", or "none".
func flags(v uint64, width int, names string) *Flags {
	f := &Flags{Value: Hex{v, width}, Names: []string{}}
	if v != 0 {
		f.Names = strings.Split(names, "|")
	}
	return f
}

// Device is an RDMA device.
type Device struct {
	Name       string  `json:"name"`
	Index      *uint32 `json:"index"`     // the kernel's number
	NodeType   *string `json:"node_type"` // ca, switch, router, rnic, usnic, usnic_udp, unspecified
	Transport  *string `json:"transport"` // InfiniBand (RoCE too), iWARP, unspecified
	Protocol   *string `json:"protocol"`  // ib, roce, iw, opa
	NodeDesc   *string `json:"node_description"`
	NodeGUID   *string `json:"node_guid"`
	SystemGUID *string `json:"sys_image_guid"`
	Firmware   *string `json:"firmware_version"`
	BoardID    *string `json:"board_id" nil:"none"`
	HCAType    *string `json:"hca_type" nil:"none"`
	VendorID   *Hex    `json:"vendor_id"` // an IEEE OUI, not the PCI vendor
	PartID     *uint32 `json:"vendor_part_id"`
	Hardware   *Hex    `json:"hardware_version"`
	PortCount  *int    `json:"port_count"`

	Driver     *string `json:"driver"`        // the RDMA driver: mlx5, efa, rxe; of a capture the PCI driver: mlx5_core
	Module     *string `json:"kernel_module"` // mlx5_ib, efa, rdma_rxe
	CharDevice *string `json:"char_device"`   // /dev/infiniband/uverbs0
	UverbsABI  *int    `json:"uverbs_abi"`
	Vectors    *int    `json:"completion_vectors"`
	Software   *bool   `json:"software"`  // no hardware of its own: rxe, siw
	NUMANode   *int    `json:"numa_node"` // null is unknown, -1 in sysfs
	DMABuf     *bool   `json:"dmabuf_import"`
	Adaptive   *bool   `json:"adaptive_moderation"`
	ByUser     *bool   `json:"named_by_user"`
	Type       *string `json:"device_type" nil:"none"` // of a device that hangs on another
	Parent     *string `json:"parent" nil:"none"`

	PCI          *PCI         `json:"pci" group:"PCI function"`
	Netdevs      []Netdev     `json:"netdevs" group:"Network devices"`
	Capabilities *Flags       `json:"capabilities"`
	Limits       *Limits      `json:"limits" group:"Limits"`
	ODP          *ODP         `json:"on_demand_paging" group:"On-demand paging"`
	Clock        *Clock       `json:"clock" group:"Clock"`
	Offloads     *Offloads    `json:"offloads" group:"Offloads"`
	TagMatching  *TagMatching `json:"tag_matching" group:"Tag matching"`
	PCIAtomics   *PCIAtomics  `json:"pci_atomics" group:"PCI atomics"`
	Ports        []Port       `json:"ports"`
	Resources    *Resources   `json:"resources"`
}

// PCI is the function that the device is on; software devices have none.
type PCI struct {
	Address         string  `json:"address"`
	Driver          *string `json:"driver"`
	VendorID        *Hex    `json:"vendor_id"`
	DeviceID        *Hex    `json:"device_id"`
	SubsystemVendor *Hex    `json:"subsystem_vendor_id"`
	SubsystemDevice *Hex    `json:"subsystem_device_id"`
	Revision        *Hex    `json:"revision"`
	Class           *Hex    `json:"class"`
	LinkSpeed       *string `json:"link_speed"`     // as sysfs prints it: 16.0 GT/s PCIe
	MaxLinkSpeed    *string `json:"max_link_speed"` //
	LinkWidth       *int    `json:"link_width_lanes"`
	MaxLinkWidth    *int    `json:"max_link_width_lanes"`
}

// Netdev is a network interface of the device or of one of its ports.
type Netdev struct {
	Name       string  `json:"name"`
	Index      *int    `json:"index"`
	Port       *int    `json:"port"`
	State      *string `json:"state"` // operstate
	MTU        *int    `json:"mtu_bytes"`
	MAC        *string `json:"address"`
	Speed      *int    `json:"speed_mbps"`
	PCIAddress *string `json:"pci_address"`
}

// Limits are a device's (struct ibv_device_attr_ex, whose names they keep).
type Limits struct {
	MaxMRSize            uint64  `json:"max_mr_size_bytes"`
	PageSizes            Flags   `json:"page_size_cap_bytes"`
	MaxQP                int     `json:"max_qp"`
	MaxQPWR              int     `json:"max_qp_wr"`
	MaxSGE               int     `json:"max_sge"`
	MaxSGERead           int     `json:"max_sge_rd"`
	MaxCQ                int     `json:"max_cq"`
	MaxCQE               int     `json:"max_cqe"`
	MaxMR                int     `json:"max_mr"`
	MaxPD                int     `json:"max_pd"`
	MaxMW                int     `json:"max_mw"`
	MaxAH                int     `json:"max_ah"`
	MaxSRQ               int     `json:"max_srq"`
	MaxSRQWR             int     `json:"max_srq_wr"`
	MaxSRQSGE            int     `json:"max_srq_sge"`
	MaxPKeys             int     `json:"max_pkeys"`
	MaxQPReadAtomic      int     `json:"max_qp_rd_atom"`
	MaxQPInitReadAtomic  int     `json:"max_qp_init_rd_atom"`
	MaxResReadAtomic     int     `json:"max_res_rd_atom"`
	MaxEEReadAtomic      int     `json:"max_ee_rd_atom"`
	MaxEEInitReadAtomic  int     `json:"max_ee_init_rd_atom"`
	MaxEE                int     `json:"max_ee"`
	MaxRDD               int     `json:"max_rdd"`
	MaxRawIPv6QP         int     `json:"max_raw_ipv6_qp"`
	MaxRawEthernetQP     int     `json:"max_raw_ethy_qp"`
	MaxMulticastGroups   int     `json:"max_mcast_grp"`
	MaxMulticastQPs      int     `json:"max_mcast_qp_attach"`
	MaxTotalMulticastQPs int     `json:"max_total_mcast_qp_attach"`
	MaxFMR               int     `json:"max_fmr"`
	MaxMapPerFMR         int     `json:"max_map_per_fmr"`
	LocalAckDelay        int     `json:"local_ca_ack_delay"` // code: 4.096 us * 2^code
	LocalAckDelayTime    float64 `json:"local_ca_ack_delay_us"`
	AtomicCap            string  `json:"atomic_cap"`
	// The rest is of the extended query; null where the library cannot ask.
	MaxWQ               *uint32 `json:"max_wq_type_rq"`
	MaxDMSize           *uint64 `json:"max_dm_size_bytes"`
	MaxModerationCount  *int    `json:"max_cq_moderation_count"`
	MaxModerationPeriod *int    `json:"max_cq_moderation_period_us"`
}

// ODP is what may fault pages in instead of pinning them.
type ODP struct {
	Supported bool  `json:"supported"`
	Implicit  bool  `json:"implicit"` // the whole address space in one region
	RC        Flags `json:"rc"`
	UC        Flags `json:"uc"`
	UD        Flags `json:"ud"`
	XRC       Flags `json:"xrc"`
}

// Clock is what completions are stamped with.
type Clock struct {
	TimestampMask Hex    `json:"completion_timestamp_mask" zero:"not supported"`
	CoreKHz       uint64 `json:"core_clock_khz" zero:"not supported"`
}

// Offloads of packet queues.
type Offloads struct {
	TSOMax         uint32 `json:"tso_max_payload_bytes"`
	TSOQPTypes     Flags  `json:"tso_qp_types"`
	RSSTables      uint32 `json:"rss_max_indirection_tables"`
	RSSTableSize   uint32 `json:"rss_max_indirection_table_size"`
	RSSFunctions   Hex    `json:"rss_hash_functions"`
	RSSFields      Hex    `json:"rss_hash_fields"`
	RSSQPTypes     Flags  `json:"rss_qp_types"`
	PacingMin      uint32 `json:"packet_pacing_min_kbps"`
	PacingMax      uint32 `json:"packet_pacing_max_kbps"`
	PacingQPTypes  Flags  `json:"packet_pacing_qp_types"`
	RawPacketFlags Flags  `json:"raw_packet"`
}

// TagMatching is of shared receive queues that match tags; MaxTags 0 is none.
type TagMatching struct {
	MaxTags             uint32 `json:"max_tags" zero:"not supported"`
	MaxRendezvousHeader uint32 `json:"max_rendezvous_header_bytes"`
	MaxOps              uint32 `json:"max_ops"`
	MaxSGE              uint32 `json:"max_sge"`
	Flags               Hex    `json:"flags"`
}

// PCIAtomics are sizes in bytes that the device can operate on across PCI.
type PCIAtomics struct {
	FetchAdd    []int `json:"fetch_add_bytes"`
	Swap        []int `json:"swap_bytes"`
	CompareSwap []int `json:"compare_swap_bytes"`
}

// portOf gives the device's port, which it makes if there is none yet.
func (d *Device) portOf(n int) *Port {
	for i := range d.Ports {
		if d.Ports[i].Number == n {
			return &d.Ports[i]
		}
	}
	at := 0
	for at < len(d.Ports) && d.Ports[at].Number < n {
		at++
	}
	d.Ports = append(d.Ports, Port{})
	copy(d.Ports[at+1:], d.Ports[at:])
	d.Ports[at] = Port{Number: n}
	return &d.Ports[at]
}

// netdev gives the device's network interface of that name, made if need be.
func (d *Device) netdev(name string) *Netdev {
	for i := range d.Netdevs {
		if d.Netdevs[i].Name == name {
			return &d.Netdevs[i]
		}
	}
	d.Netdevs = append(d.Netdevs, Netdev{Name: name})
	return &d.Netdevs[len(d.Netdevs)-1]
}
