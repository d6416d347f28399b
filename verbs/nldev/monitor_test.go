package nldev

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/verbs/nldev/internal/abi"
)

func eventBody(kind uint8, rest attrs) attrs {
	return attrs(nil).uint8(abi.RDMA_NLDEV_ATTR_EVENT_TYPE, kind).append(rest)
}

func (a attrs) append(b attrs) attrs { return append(a[:len(a):len(a)], b...) }

func monitored(on uint8) replies {
	return replies{abi.RDMA_NLDEV_CMD_SYS_GET: {attrs(nil).uint8(abi.RDMA_NLDEV_SYS_ATTR_MONITOR_MODE, on)}}
}

func TestMonitor(t *testing.T) {
	c, _ := connect(t, monitored(1).kernel)
	m, err := c.Monitor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	w := m.transport.(*wire)
	if len(w.groups) != 1 || w.groups[0] != 4 {
		t.Errorf("groups %v", w.groups)
	}
	notify := func(bodies ...attrs) {
		var b []byte
		for _, body := range bodies {
			b = message{kind: 5<<10 | abi.RDMA_NLDEV_CMD_MONITOR, body: body}.append(b)
		}
		w.queue <- b
	}
	port := handleOf(0, "rxe0").uint32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, 1)
	netdev := attrs(nil).uint32(abi.RDMA_NLDEV_ATTR_NDEV_INDEX, 2).text(abi.RDMA_NLDEV_ATTR_NDEV_NAME, "eth0")
	notify(eventBody(0, handleOf(0, "rxe0")), eventBody(2, port.append(netdev)))
	notify(eventBody(3, port))
	notify(eventBody(5, netdev))

	var got []Event
	for e, err := range m.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, e); len(got) == 4 {
			break
		}
	}
	check(t, got, nil, []Event{
		{Type: DeviceAdded, Device: "rxe0"},
		{Type: NetdevAttached, Device: "rxe0", Port: 1, Netdev: "eth0", NetdevIndex: 2},
		{Type: NetdevDetached, Device: "rxe0", Port: 1},
		{Type: NetdevRenamed, Netdev: "eth0", NetdevIndex: 2},
	})

	// Lost events are reported, and the next ones follow.
	w.errs <- unix.ENOBUFS
	if _, err := m.Next(t.Context()); !errors.Is(err, unix.ENOBUFS) || !strings.Contains(err.Error(), "notifications were lost") {
		t.Error(err)
	}
	notify(eventBody(1, handleOf(0, "rxe0")))
	if e, err := m.Next(t.Context()); err != nil || e.Type != DeviceRemoved {
		t.Errorf("%v, %v", e, err)
	}

	// The context's end ends the loop, Close the wait.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	for e, err := range m.Events(ctx) {
		t.Errorf("%v, %v", e, err)
	}
	m.Close()
	if _, err := m.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestMonitorUnsupported(t *testing.T) {
	c, _ := connect(t, monitored(0).kernel)
	if _, err := c.Monitor(t.Context()); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
}

// On a kernel without notifications Watch compares what it finds.
func TestWatchFallsBack(t *testing.T) {
	netdev := func(index uint32, name string) attrs {
		return attrs(nil).uint32(abi.RDMA_NLDEV_ATTR_NDEV_INDEX, index).text(abi.RDMA_NLDEV_ATTR_NDEV_NAME, name)
	}
	device := func(index uint32, name string) attrs {
		return handleOf(index, name).uint32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, 1)
	}
	link := func(index uint32, name string, netdev attrs) attrs { return device(index, name).append(netdev) }
	type state struct {
		devices []attrs
		links   map[uint32]attrs
	}
	states := []state{
		{[]attrs{device(0, "rxe0")}, map[uint32]attrs{0: link(0, "rxe0", netdev(2, "eth0"))}},
		{[]attrs{device(0, "left")}, map[uint32]attrs{0: link(0, "left", netdev(2, "up0"))}},
		{[]attrs{device(0, "left")}, map[uint32]attrs{0: link(0, "left", nil)}},
		{[]attrs{device(1, "left")}, map[uint32]attrs{1: link(1, "left", netdev(2, "up0"))}},
	}
	now := 0
	c, _ := connect(t, func(request message) [][]message {
		switch command(request) {
		case abi.RDMA_NLDEV_CMD_GET:
			return answer(request, 0, states[now].devices...)
		case abi.RDMA_NLDEV_CMD_PORT_GET:
			return answer(request, 0, states[now].links[asked(t, request, abi.RDMA_NLDEV_ATTR_DEV_INDEX)])
		}
		return monitored(0).kernel(request)
	})
	ctx, cancel := context.WithCancel(t.Context())
	var got []string
	for e, err := range c.Watch(ctx, WatchOptions{Wait: func(ctx context.Context) error {
		if now++; now == len(states) {
			cancel()
		}
		return ctx.Err()
	}}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(e.Type, " ", e.DeviceIndex, " ", e.Device, " ", e.Port, " ", e.NetdevIndex, " ", e.Netdev))
	}
	check(t, got, nil, []string{
		"RENAME 0 left 0 0 ",
		"NETDEV_RENAME 0  0 2 up0",
		"NETDEV_DETACH 0 left 1 2 up0",
		"UNREGISTER 0 left 0 0 ",
		"REGISTER 1 left 0 0 ",
		"NETDEV_ATTACH 1 left 1 2 up0",
	})
}
