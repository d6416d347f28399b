package nldev

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/verbs/nldev/internal/abi"
)

func check[T any](t *testing.T, got T, err error, want T) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
		t.Errorf("wanted -, got +:\n%s", diff)
	}
}

func TestDevices(t *testing.T) {
	unknown := rxe0[:len(rxe0):len(rxe0)].uint32(9999, 1).nest(9998, attrs(nil).text(1, "from the future"))
	c, _ := connect(t, replies{abi.RDMA_NLDEV_CMD_GET: {unknown, mlx}}.kernel)
	got, err := c.Devices(t.Context())
	check(t, got, err, []Device{{
		Index: 0, Name: "rxe0", Ports: 1, NodeType: NodeCA, Protocol: "roce",
		NodeGUID: 0x505400fffe123456, SysImageGUID: 0x505400fffe123457,
		Caps:               1<<21 | 1<<1 | 1<<40,
		AdaptiveModeration: Some(false), NamedByUser: Some(true),
	}, {
		Index: 3, Name: "smi0", Ports: 2, Protocol: "ib", Firmware: "28.43.1014", Type: DeviceSMI, Parent: "mlx5_0",
	}})
	if got := got[0].NodeGUID.String(); got != "5054:00ff:fe12:3456" {
		t.Errorf("GUID is %s", got)
	}
	if got := got[0].Caps.String(); got != "BAD_PKEY_CNTR,MEM_MGT_EXTENSIONS,ATOMIC_WRITE" {
		t.Errorf("caps are %s", got)
	}
}

func TestNoDevices(t *testing.T) {
	c, _ := connect(t, replies{abi.RDMA_NLDEV_CMD_GET: nil}.kernel)
	devices, err := c.Devices(t.Context())
	check(t, devices, err, nil)
	qps, err := c.QPs(t.Context(), Filter{})
	check(t, qps, err, nil)
}

func TestLinks(t *testing.T) {
	ports := map[uint32]map[uint32]attrs{
		0: {1: handleOf(0, "rxe0").
			uint32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, 1).
			uint8(abi.RDMA_NLDEV_ATTR_PORT_STATE, 4).
			uint8(abi.RDMA_NLDEV_ATTR_PORT_PHYS_STATE, 5).
			uint32(abi.RDMA_NLDEV_ATTR_NDEV_INDEX, 2).
			text(abi.RDMA_NLDEV_ATTR_NDEV_NAME, "eth0")},
		3: {2: handleOf(3, "smi0").
			uint32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, 2).
			uint64(abi.RDMA_NLDEV_ATTR_CAP_FLAGS, 1<<1|1<<42).
			uint64(abi.RDMA_NLDEV_ATTR_SUBNET_PREFIX, 0xfe80000000000000).
			uint32(abi.RDMA_NLDEV_ATTR_LID, 13).
			uint32(abi.RDMA_NLDEV_ATTR_SM_LID, 49).
			uint8(abi.RDMA_NLDEV_ATTR_LMC, 0).
			uint8(abi.RDMA_NLDEV_ATTR_PORT_STATE, 2).
			uint8(abi.RDMA_NLDEV_ATTR_PORT_PHYS_STATE, 4)},
	}
	// Port 1 of the second device is broken: its driver does not answer.
	c, _ := connect(t, func(request message) [][]message {
		if command(request) == abi.RDMA_NLDEV_CMD_GET {
			return answer(request, 0, rxe0, mlx)
		}
		device, port := asked(t, request, abi.RDMA_NLDEV_ATTR_DEV_INDEX), asked(t, request, abi.RDMA_NLDEV_ATTR_PORT_INDEX)
		if body, ok := ports[device][port]; ok {
			return answer(request, 0, body)
		}
		return refuse(request, unix.EIO, "")
	})
	got, err := c.Links(t.Context(), "")
	if want := "nldev: smi0: list links: input/output error (EIO)"; err == nil || err.Error() != want {
		t.Errorf("error is %v, not %s", err, want)
	}
	check(t, got, nil, []Link{{
		Device: "rxe0", Port: 1, State: PortActive, PhysState: PhysLinkUp, Netdev: "eth0", NetdevIndex: 2,
	}, {
		Device: "smi0", DeviceIndex: 3, Port: 2, State: PortInit, PhysState: PhysTraining,
		IB: Some(IBLink{LID: 13, SMLID: 49, SubnetPrefix: 0xfe80000000000000, Caps: 1<<1 | 1<<42}),
	}})
	if got[0].Name() != "rxe0/1" || got[0].State.String() != "ACTIVE" || got[1].IB.V.Caps.String() != "SM,LINK_SPEED_NDR" {
		t.Errorf("words: %s %s %s", got[0].Name(), got[0].State, got[1].IB.V.Caps)
	}
}

// asked gives a 32-bit attribute of a request.
func asked(t *testing.T, request message, kind uint16) uint32 {
	t.Helper()
	r := attrReader{rest: request.body}
	for r.next() {
		if r.kind == kind {
			return r.uint32()
		}
	}
	t.Errorf("request %d lacks attribute %d: %v", command(request), kind, r.err)
	return 0
}

func TestSystem(t *testing.T) {
	c, _ := connect(t, replies{abi.RDMA_NLDEV_CMD_SYS_GET: {attrs(nil).
		uint8(abi.RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 1).
		uint8(abi.RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE, 0).
		uint8(abi.RDMA_NLDEV_SYS_ATTR_MONITOR_MODE, 1).
		uint8(abi.RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 1)}}.kernel)
	got, err := c.System(t.Context())
	check(t, got, err, System{SharedNamespaces: true, CopyOnFork: true, Monitor: true})
}

// What changes something sends exactly what the kernel's handlers look for.
func TestRequests(t *testing.T) {
	index := attrs(nil).uint32(abi.RDMA_NLDEV_ATTR_DEV_INDEX, 0)
	with := func() attrs { return index[:len(index):len(index)] }
	for name, test := range map[string]struct {
		do      func(*Client) error
		command uint16
		want    attrs
	}{
		"AddLink": {
			func(c *Client) error { return c.AddLink(t.Context(), "rxe1", "rxe", "eth0") },
			abi.RDMA_NLDEV_CMD_NEWLINK,
			attrs(nil).text(abi.RDMA_NLDEV_ATTR_DEV_NAME, "rxe1").text(abi.RDMA_NLDEV_ATTR_LINK_TYPE, "rxe").text(abi.RDMA_NLDEV_ATTR_NDEV_NAME, "eth0"),
		},
		"DelLink": {
			func(c *Client) error { return c.DelLink(t.Context(), "rxe0") },
			abi.RDMA_NLDEV_CMD_DELLINK, with(),
		},
		"RenameDevice": {
			func(c *Client) error { return c.RenameDevice(t.Context(), "rxe0", "left") },
			abi.RDMA_NLDEV_CMD_SET, with().text(abi.RDMA_NLDEV_ATTR_DEV_NAME, "left"),
		},
		"SetNamespace": {
			func(c *Client) error { return c.SetNamespace(t.Context(), "rxe0", 5) },
			abi.RDMA_NLDEV_CMD_SET, with().uint32(abi.RDMA_NLDEV_NET_NS_FD, 5),
		},
		"SetAdaptiveModeration": {
			func(c *Client) error { return c.SetAdaptiveModeration(t.Context(), "rxe0", true) },
			abi.RDMA_NLDEV_CMD_SET, with().uint8(abi.RDMA_NLDEV_ATTR_DEV_DIM, 1),
		},
		"CharDev": {
			func(c *Client) error {
				_, err := c.CharDev(t.Context(), "rxe0")
				return err
			},
			abi.RDMA_NLDEV_CMD_GET_CHARDEV, with().text(abi.RDMA_NLDEV_ATTR_CHARDEV_TYPE, "uverbs"),
		},
		"SetSharedNamespaces": {
			func(c *Client) error { return c.SetSharedNamespaces(t.Context(), false) },
			abi.RDMA_NLDEV_CMD_SYS_SET, attrs(nil).uint8(abi.RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 0),
		},
		"SetPrivilegedQKey": {
			func(c *Client) error { return c.SetPrivilegedQKey(t.Context(), true) },
			abi.RDMA_NLDEV_CMD_SYS_SET, attrs(nil).uint8(abi.RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE, 1),
		},
		"QPs": {
			func(c *Client) error {
				_, err := c.QPs(t.Context(), Filter{Device: "rxe0", Port: 1, DriverDetails: true})
				return err
			},
			abi.RDMA_NLDEV_CMD_RES_QP_GET, with().uint32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, 1).uint8(abi.RDMA_NLDEV_ATTR_DRIVER_DETAILS, 1),
		},
		"MRs": {
			func(c *Client) error {
				_, err := c.MRs(t.Context(), Filter{Device: "rxe0", Port: 1})
				return err
			},
			abi.RDMA_NLDEV_CMD_RES_MR_GET, with(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			seen := 0
			c, _ := connect(t, func(request message) [][]message {
				if command(request) == abi.RDMA_NLDEV_CMD_GET {
					return answer(request, 0, rxe0)
				}
				seen++
				if request.kind != 5<<10|test.command || request.flags&unix.NLM_F_REQUEST == 0 {
					t.Errorf("kind %#x, flags %#x", request.kind, request.flags)
				}
				if diff := cmp.Diff([]byte(test.want), request.body); diff != "" {
					t.Errorf("wanted -, got +:\n%s", diff)
				}
				return answer(request, 0)
			})
			if err := test.do(c); err != nil || seen != 1 {
				t.Errorf("%v after %d requests", err, seen)
			}
		})
	}
}
