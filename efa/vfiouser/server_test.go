package vfiouser

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestVersionAgreesOnWhatBothKnow(t *testing.T) {
	c, _ := serve(t, NewServer(Options{}), newBoard(t))
	r := c.want(0, CmdVersion, versionBody(0, 7, `{"capabilities":{"max_msg_fds":1,"pgsizes":4096,"twin_socket":{"supported":true}},"x":1}`))
	if got := r.body[:versionSize]; !bytes.Equal(got, make([]byte, 4)) {
		t.Errorf("version %v, want 0.0", got)
	}
	text, ended := bytes.CutSuffix(r.body[versionSize:], []byte{0})
	if !ended {
		t.Error("no NUL after the reply's text")
	}
	var got map[string]map[string]int
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]int{"capabilities": {"max_msg_fds": 16, "pgsizes": 4096}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("capabilities (-want +got):\n%s", diff)
	}
	c.want(syscall.EINVAL, CmdVersion, versionBody(0, 0, `{}`)) // a second time
	c.want(0, CmdGetInfo, words(infoSize, 0, 0, 0))             // and all goes on
}

func TestVersionRefused(t *testing.T) {
	for name, body := range map[string][]byte{
		"major":    versionBody(1, 0, `{}`),
		"short":    {0, 0},
		"no NUL":   []byte("\x00\x00\x00\x00{}"),
		"not JSON": versionBody(0, 0, `{"capabilities":`),
		"not ours": versionBody(0, 0, `{"capabilities":[1]}`),
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := serve(t, NewServer(Options{}), newBoard(t))
			c.want(syscall.EINVAL, CmdVersion, body)
			c.hello()
		})
	}
}

func TestConnectionEndsAtNonsense(t *testing.T) {
	message := func(cmd Command, size, flags uint32, body ...byte) []byte {
		h := header{command: cmd, size: size, flags: flags}
		b := make([]byte, headerSize)
		h.encode(b)
		return append(b, body...)
	}
	tests := []struct {
		name   string
		hello  bool
		bytes  []byte
		reason string
	}{
		{"another first", false, message(CmdGetInfo, headerSize, 0), "first message must be VERSION"},
		{"short", true, message(CmdReset, 15, 0), "less than a header"},
		{"long", true, message(CmdRegionWrite, maxMessage+1, 0), "more than the"},
		{"huge", true, message(CmdRegionWrite, 1<<32-1, 0), "more than the"},
		{"reply", true, message(CmdDMARead, headerSize, flagReply), "not asked"},
		{"half a header", true, []byte{1, 2, 3}, "in the middle"},
		{"half a body", true, message(CmdGetInfo, headerSize+infoSize, 0, 1, 2), "in the middle"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := newBoard(t)
			c, wait := serve(t, NewServer(Options{}), b)
			if test.hello {
				c.hello()
			}
			if _, err := c.conn.Write(test.bytes); err != nil {
				t.Fatal(err)
			}
			c.conn.CloseWrite()
			err := wait()
			if broken := (*ProtocolError)(nil); !errors.As(err, &broken) || !strings.Contains(err.Error(), test.reason) {
				t.Errorf("the connection ended with %v, want a ProtocolError with %q", err, test.reason)
			}
			if b.resetCount() != 1 {
				t.Errorf("%d resets, want 1", b.resetCount())
			}
		})
	}
}

func TestDeviceDescription(t *testing.T) {
	c, _ := serve(t, NewServer(Options{}), newBoard(t))
	c.hello()
	r := c.want(0, CmdGetInfo, words(infoSize, 0, 0, 0))
	if diff := cmp.Diff(words(infoSize, 3, 9, 5), r.body); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
	region := func(room, index int) []byte { return words(room, 0, index, 0, uint64(0), uint64(0)) }
	for _, test := range []struct {
		index int
		want  []byte
	}{
		{0, words(32, 0, 0, 0, uint64(0), uint64(0))},
		{RegionConfig, words(32, 3, RegionConfig, 0, uint64(256), uint64(0))},
	} {
		r := c.want(0, CmdGetRegionInfo, region(32, test.index))
		if diff := cmp.Diff(test.want, r.body); diff != "" {
			t.Errorf("region %d (-want +got):\n%s", test.index, diff)
		}
	}

	// A region with areas: first told to bring more room, then all of it.
	full := regionInfoSize + sparseMapHeadSize + 2*sparseMapEntrySize
	r = c.want(0, CmdGetRegionInfo, region(32, 2))
	if diff := cmp.Diff(words(full, 15, 2, 0, uint64(boardBAR), uint64(0)), r.body); diff != "" || len(r.files) != 0 {
		t.Errorf("region 2 without room, %d descriptors (-want +got):\n%s", len(r.files), diff)
	}
	r = c.want(0, CmdGetRegionInfo, region(full, 2))
	want := words(full, 15, 2, regionInfoSize, uint64(boardBAR), uint64(0),
		[]byte{1, 0, 1, 0}, 0, 2, 0,
		uint64(pageSize), uint64(pageSize), uint64(3*pageSize), uint64(pageSize))
	if diff := cmp.Diff(want, r.body); diff != "" {
		t.Errorf("region 2 (-want +got):\n%s", diff)
	}
	if len(r.files) != 1 {
		t.Fatalf("region 2 came with %d descriptors, want 1", len(r.files))
	}
	defer r.files[0].Close()
	c.want(0, CmdRegionWrite, accessBody(2, pageSize+8, 4, 1, 2, 3, 4))
	mapped, err := unix.Mmap(int(r.files[0].Fd()), pageSize, pageSize, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mapped)
	if !bytes.Equal(mapped[8:12], []byte{1, 2, 3, 4}) {
		t.Errorf("the mapped region has %v", mapped[8:12])
	}

	for _, test := range []struct {
		index, count int
	}{{InterruptINTx, 0}, {InterruptMSIX, 4}, {InterruptReq, 0}} {
		r := c.want(0, CmdGetIRQInfo, words(irqInfoSize, 0, test.index, 0))
		flags := 0
		if test.count > 0 {
			flags = irqEventFD | irqNoResize
		}
		if diff := cmp.Diff(words(irqInfoSize, flags, test.index, test.count), r.body); diff != "" {
			t.Errorf("interrupt %d (-want +got):\n%s", test.index, diff)
		}
	}
}

func TestRefusals(t *testing.T) {
	file := memfd(t, pageSize)
	fd := int(file.Fd())
	tests := []struct {
		name  string
		errno syscall.Errno
		cmd   Command
		body  []byte
		fds   []int
	}{
		{"info short", syscall.EINVAL, CmdGetInfo, words(infoSize, 0, 0), nil},
		{"info argsz", syscall.EINVAL, CmdGetInfo, words(15, 0, 0, 0), nil},
		{"region index", syscall.EINVAL, CmdGetRegionInfo, words(32, 0, 9, 0, uint64(0), uint64(0)), nil},
		{"region argsz", syscall.EINVAL, CmdGetRegionInfo, words(31, 0, 0, 0, uint64(0), uint64(0)), nil},
		{"irq index", syscall.EINVAL, CmdGetIRQInfo, words(16, 0, 5, 0), nil},
		{"read index", syscall.EINVAL, CmdRegionRead, accessBody(9, 0, 1), nil},
		{"read absent", syscall.EINVAL, CmdRegionRead, accessBody(0, 0, 1), nil},
		{"read past", syscall.EINVAL, CmdRegionRead, accessBody(RegionConfig, 255, 2), nil},
		{"read overflow", syscall.EINVAL, CmdRegionRead, accessBody(RegionConfig, 1<<64-1, 2), nil},
		{"read much", syscall.EINVAL, CmdRegionRead, accessBody(2, 0, maxTransfer+1), nil},
		{"write less", syscall.EINVAL, CmdRegionWrite, accessBody(RegionConfig, 4, 4, 1, 2), nil},
		{"write more", syscall.EINVAL, CmdRegionWrite, accessBody(RegionConfig, 4, 1, 1, 2), nil},
		{"write refused by device", syscall.EPERM, CmdRegionWrite, accessBody(RegionConfig, 0, 1, 1), nil},
		{"multi count", syscall.EINVAL, CmdWriteMulti, words(uint64(2), make([]byte, 24)), nil},
		{"multi overflow", syscall.EINVAL, CmdWriteMulti, words(uint64(1)<<61, make([]byte, 0)), nil},
		{"multi size", syscall.EINVAL, CmdWriteMulti, words(uint64(1), accessBody(2, 0, 9, make([]byte, 8)...)), nil},
		{"map short", syscall.EINVAL, CmdDMAMap, mapBody(3, 0, 0, pageSize)[:31], nil},
		{"map flags", syscall.EINVAL, CmdDMAMap, mapBody(7, 0, 0, pageSize), nil},
		{"map nothing", syscall.EINVAL, CmdDMAMap, mapBody(3, 0, 0, 0), nil},
		{"map crooked", syscall.EINVAL, CmdDMAMap, mapBody(3, 0, 1, pageSize), nil},
		{"map wraps", syscall.EINVAL, CmdDMAMap, mapBody(3, 0, 1<<64-pageSize, 2*pageSize), nil},
		{"map past the file", syscall.EINVAL, CmdDMAMap, mapBody(3, pageSize, 0, pageSize), []int{fd}},
		{"map offset wraps", syscall.EINVAL, CmdDMAMap, mapBody(3, 1<<64-pageSize, 0, pageSize), []int{fd}},
		{"map two files", syscall.EINVAL, CmdDMAMap, mapBody(3, 0, 0, pageSize), []int{fd, fd}},
		{"unmap short", syscall.EINVAL, CmdDMAUnmap, unmapBody(0, 0, pageSize)[:20], nil},
		{"unmap nothing", syscall.EINVAL, CmdDMAUnmap, unmapBody(0, 0, 0), nil},
		{"unmap wraps", syscall.EINVAL, CmdDMAUnmap, unmapBody(0, 1<<63, 1<<63+1), nil},
		{"unmap bitmap", syscall.EINVAL, CmdDMAUnmap, unmapBody(1, 0, pageSize), nil},
		{"unmap all of a range", syscall.EINVAL, CmdDMAUnmap, unmapBody(unmapAll, 0, pageSize), nil},
		{"irqs short", syscall.EINVAL, CmdSetIRQs, words(20, 36, 2, 0), nil},
		{"irqs past", syscall.EINVAL, CmdSetIRQs, words(20, 36, 2, 4, 1), []int{fd}},
		{"irqs wrap", syscall.EINVAL, CmdSetIRQs, words(20, 36, 2, 1, 1<<32-1), nil},
		{"irqs mask", syscall.EINVAL, CmdSetIRQs, words(20, 9, 2, 0, 1), nil},
		{"irqs two kinds", syscall.EINVAL, CmdSetIRQs, words(20, 38, 2, 0, 1), nil},
		{"irqs fewer files", syscall.EINVAL, CmdSetIRQs, words(20, 36, 2, 0, 2), []int{fd}},
		{"irqs fewer booleans", syscall.EINVAL, CmdSetIRQs, words(20, 34, 2, 0, 2, []byte{1}), nil},
		{"irqs absent", syscall.EINVAL, CmdSetIRQs, words(20, 36, 0, 0, 1), []int{fd}},
		{"too many files", syscall.EINVAL, CmdReset, nil, slices.Repeat([]int{fd}, maxFDs+1)},
		{"io fds", syscall.ENOTTY, CmdGetRegionIOFDs, words(16, 0, 2, 0), nil},
		{"feature", syscall.ENOTTY, CmdFeature, words(8, 0), nil},
		{"dma read", syscall.ENOTTY, CmdDMARead, words(uint64(0), uint64(1)), nil},
		{"unknown", syscall.ENOTTY, 99, nil, nil},
	}
	s := NewServer(Options{})
	c, _ := serve(t, s, newBoard(t))
	c.hello()
	before := descriptors(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c.t = t
			c.want(test.errno, test.cmd, test.body, test.fds...)
		})
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors open, %d before the refusals", after, before)
	}
	if len(s.memory.maps) != 0 {
		t.Errorf("refused maps left %v", s.memory.maps)
	}
}

func TestRegionAccess(t *testing.T) {
	b := newBoard(t)
	c, _ := serve(t, NewServer(Options{}), b)
	c.hello()
	r := c.want(0, CmdRegionWrite, accessBody(RegionConfig, 0x40, 4, 1, 2, 3, 4))
	if diff := cmp.Diff(accessBody(RegionConfig, 0x40, 4), r.body); diff != "" {
		t.Errorf("write's reply (-want +got):\n%s", diff)
	}
	// Writes that nobody waits for are done before what follows them.
	c.send(CmdRegionWrite, flagNoReply, accessBody(RegionConfig, 0x42, 1, 9))
	c.send(CmdRegionWrite, flagNoReply, accessBody(RegionConfig, 0, 1, 9)) // its error too is not told
	multi := words(uint64(2), accessBody(RegionConfig, 0x44, 2, 5, 6, 0, 0, 0, 0, 0, 0), accessBody(RegionConfig, 0x46, 1, 7, 0, 0, 0, 0, 0, 0, 0))
	if diff := cmp.Diff(words(uint64(2)), c.want(0, CmdWriteMulti, multi).body); diff != "" {
		t.Errorf("multi's reply (-want +got):\n%s", diff)
	}
	r = c.want(0, CmdRegionRead, accessBody(RegionConfig, 0x3f, 9))
	if diff := cmp.Diff(accessBody(RegionConfig, 0x3f, 9, 0, 1, 2, 9, 4, 5, 6, 7, 0), r.body); diff != "" {
		t.Errorf("read's reply (-want +got):\n%s", diff)
	}
	if r := c.want(0, CmdRegionRead, accessBody(2, 0, boardBAR)); len(r.body) != regionAccessSize+boardBAR {
		t.Errorf("a whole region read gave %d bytes", len(r.body))
	}
	c.want(0, CmdReset, nil)
	if b.resetCount() != 1 {
		t.Errorf("%d resets, want 1", b.resetCount())
	}
}

func TestInterrupts(t *testing.T) {
	s := NewServer(Options{})
	c, wait := serve(t, s, newBoard(t))
	c.hello()
	s.MSIX(0) // nobody listens yet
	e0, e1, e2 := eventfd(t), eventfd(t), eventfd(t)
	before := descriptors(t)
	set := func(flags, start, count int, fds ...int) {
		t.Helper()
		c.want(0, CmdSetIRQs, words(setIRQsSize, flags, InterruptMSIX, start, count), fds...)
	}
	expect := func(what string, n0, n1, n2 uint64) {
		t.Helper()
		if g0, g1, g2 := count(t, e0), count(t, e1), count(t, e2); g0 != n0 || g1 != n1 || g2 != n2 {
			t.Errorf("%s: events %d %d %d, want %d %d %d", what, g0, g1, g2, n0, n1, n2)
		}
	}
	set(36, 0, 2, int(e0.Fd()), int(e1.Fd()))
	s.MSIX(0)
	s.MSIX(1)
	s.MSIX(1)
	s.MSIX(2)
	s.MSIX(-1)
	s.MSIX(99)
	s.Interrupt(InterruptINTx, 0)
	s.Interrupt(77, 0)
	expect("two vectors", 1, 2, 0)

	set(36, 1, 1, int(e2.Fd())) // another in its place
	s.MSIX(1)
	expect("replaced", 0, 0, 1)

	set(36, 0, 1) // none
	s.MSIX(0)
	s.MSIX(1)
	expect("taken away", 0, 0, 1)

	set(33, 1, 1) // the client fires it itself
	expect("fired by the client", 0, 0, 1)
	c.want(0, CmdSetIRQs, words(setIRQsSize+2, 34, InterruptMSIX, 0, 2, []byte{0, 1}))
	expect("fired by the client, one of two", 0, 0, 1)

	// As QEMU adds a vector: all off, then all set again.
	set(33, 0, 0)
	s.MSIX(1)
	expect("disabled", 0, 0, 0)
	if got := descriptors(t); got != before {
		t.Errorf("%d descriptors while disabled, want %d", got, before)
	}
	set(36, 0, 3, int(e0.Fd()), int(e1.Fd()), int(e2.Fd()))
	for v := range 4 {
		s.MSIX(v)
	}
	expect("set again", 1, 1, 1)

	c.conn.Close()
	if err := wait(); err != nil {
		t.Errorf("a client that goes gave %v", err)
	}
	s.MSIX(0)
	expect("after the client", 0, 0, 0)
}
