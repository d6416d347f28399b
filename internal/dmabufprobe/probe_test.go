package dmabufprobe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/internal/golden"
	"github.com/peerdirect/peerdirect/verbs"
)

// leavesNothing checks that a test leaves no objects, descriptors and
// goroutines.
func leavesNothing(t *testing.T) {
	t.Helper()
	state := func() (objects string, descriptors, goroutines int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(dmabuf.Live(), efa.Live(), verbs.Live()), len(entries), runtime.NumGoroutine()
	}
	o, d, g := state()
	t.Cleanup(func() {
		for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			objects, descriptors, goroutines := state()
			if objects == o && descriptors <= d && goroutines <= g {
				return
			}
			if time.Now().After(end) {
				t.Errorf("left: %s, %d descriptors, %d goroutines; were: %s, %d, %d", objects, descriptors, goroutines, o, d, g)
				return
			}
		}
	})
}

func TestHostMemoryMovesOnADeviceOfThisProcess(t *testing.T) {
	leavesNothing(t)
	var tried []string
	m, err := Run(t.Context(), Options{Embedded: true, Progress: func(e, d string) { tried = append(tried, e+" on "+d) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Devices) != 1 || m.Devices[0] != (Device{EmbeddedName, "efa", "SRD", "WRITE", ""}) {
		t.Errorf("devices %+v", m.Devices)
	}
	if c := m.Cell(HostMemory, EmbeddedName); c == nil || c.Verdict != Moved || c.Stage != "" || c.Reason != "" {
		t.Errorf("%+v", c)
	}
	for i, e := range m.Exporters {
		c := &m.Cells[i]
		if tried[i] != e.Name+" on embedded" || c.Exporter != e.Name || m.Cell(e.Name, EmbeddedName) != c {
			t.Errorf("cell %d is %+v, tried as %s", i, c, tried[i])
		}
		if e.Available != (e.Problem == "") || !e.Available && (c.Verdict != Absent || c.Stage != "available" || c.Reason == "" || c.Err == nil) {
			t.Errorf("%+v: %+v", e, c)
		}
	}
	if m.Worst() != Moved {
		t.Errorf("worst is %s", m.Worst())
	}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(m); err != nil {
		t.Fatal(err)
	}
	var again Matrix
	d := json.NewDecoder(&b)
	d.DisallowUnknownFields()
	if err := d.Decode(&again); err != nil || again.Schema != Schema || len(again.Cells) != len(m.Cells) {
		t.Errorf("%v, %+v", err, again)
	}
}

func TestNamesThatThereAreNot(t *testing.T) {
	leavesNothing(t)
	var name *NameError
	if _, err := Run(t.Context(), Options{Embedded: true, Exporters: []string{"tape"}}); !errors.As(err, &name) || !strings.Contains(err.Error(), "udmabuf") {
		t.Errorf("%v", err)
	}
	if _, err := Run(t.Context(), Options{Embedded: true, Devices: []string{"no_such"}}); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("%v", err)
	}
}

// spoilt is memory one byte of which reads wrong.
type spoilt struct {
	plain
	at int
}

func (m spoilt) ReadAt(p []byte, off int64) (int, error) {
	n, err := m.plain.ReadAt(p, off)
	p[m.at] ^= 0x40
	return n, err
}

// deaf is memory that no write by the CPU reaches.
type deaf struct{ plain }

func (deaf) WriteAt(p []byte, off int64) (int, error) { return len(p), nil }

func TestWrongBytesAreFound(t *testing.T) {
	leavesNothing(t)
	c := openEmbedded()
	defer c.close()
	page := os.Getpagesize()
	for name, m := range map[string]struct {
		mem   func(plain) bytesAt
		stage string
		words string
	}{
		"right":          {func(p plain) bytesAt { return p }, "", ""},
		"out":            {func(p plain) bytesAt { return deaf{p} }, "out", "bytes that came out"},
		"in":             {func(p plain) bytesAt { return spoilt{p, page + 77} }, "in", "1 of 4096 bytes that went in, the first at 77"},
		"before":         {func(p plain) bytesAt { return spoilt{p, 5} }, "in", "around the region, the first at 5"},
		"after":          {func(p plain) bytesAt { return spoilt{p, 4*page - 1} }, "in", "around the region, the first at 16383"},
		"right, at last": {func(p plain) bytesAt { return p }, "", ""},
	} {
		q, err := c.queue()
		if err != nil {
			t.Fatal(err)
		}
		host, err := verbs.NewBuffer(page, verbs.BufferOptions{})
		if err != nil {
			t.Fatal(err)
		}
		mem, err := verbs.NewBuffer(pagesAllocated*page, verbs.BufferOptions{})
		if err != nil {
			t.Fatal(err)
		}
		mine, err := q.register(host.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := q.register(mem.Bytes()[page : 2*page])
		if err != nil {
			t.Fatal(err)
		}
		var got stage
		move(t.Context(), func(name string, err error) bool {
			if err != nil {
				got = stage{name, err}
			}
			return err == nil
		}, q, m.mem(plain(mem.Bytes())), host.Bytes(), mine, theirs)
		var cell Cell
		if got.err != nil {
			cell.end(got)
		}
		if got.name != m.stage || (m.stage != "") != (cell.Verdict == Differs) || !strings.Contains(cell.Reason, m.words) {
			t.Errorf("%s: %+v", name, cell)
		}
		for _, c := range []interface{ close() error }{mine, theirs, q} {
			if err := c.close(); err != nil {
				t.Error(err)
			}
		}
		host.Close()
		mem.Close()
	}
}

// sealed is memory that the CPU does not reach at all.
type sealed struct{ plain }

func (sealed) WriteAt([]byte, int64) (int, error) {
	return 0, fmt.Errorf("the CPU does not reach it: %w", errors.ErrUnsupported)
}

func TestMemoryThatTheCPUDoesNotReachIsNoFailure(t *testing.T) {
	page := os.Getpagesize()
	var cell Cell
	move(t.Context(), func(name string, err error) bool {
		if err != nil {
			cell.end(stage{name, err})
		}
		return err == nil
	}, &srd{}, sealed{}, make([]byte, page), nil, nil)
	if cell.Verdict != Refused || cell.Stage != "fill" || !strings.Contains(cell.Reason, "CPU") {
		t.Errorf("%+v", cell)
	}
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		s    stage
		want Verdict
		code string
	}{
		{stage{"register", syscall.EOPNOTSUPP}, Refused, "EOPNOTSUPP"},
		{stage{"register", syscall.Errno(524)}, Refused, "ENOTSUPP"},
		{stage{"register", fmt.Errorf("ibv_reg_dmabuf_mr: %w", syscall.EREMOTEIO)}, Refused, "EREMOTEIO"},
		{stage{"register", syscall.EPERM}, Refused, "EPERM"},
		{stage{"allocate", fmt.Errorf("x: %w", errors.ErrUnsupported)}, Refused, ""},
		{stage{"register", syscall.EINVAL}, Failed, "EINVAL"},
		{stage{"register", syscall.ENOMEM}, Failed, "ENOMEM"},
		{stage{"out", syscall.EOPNOTSUPP}, Failed, "EOPNOTSUPP"}, // it was registered
		{stage{"deregister", syscall.EPERM}, Failed, "EPERM"},
		{stage{"in", differs("bytes", []byte{1}, []byte{2})}, Differs, ""},
	} {
		var cell Cell
		cell.end(c.s)
		if cell.Verdict != c.want || cell.Errno != c.code || cell.Stage != c.s.name {
			t.Errorf("%v: %+v", c.s, cell)
		}
	}
	m := Matrix{Cells: []Cell{{Verdict: Absent}, {Verdict: Refused}}}
	for _, want := range []Verdict{Moved, Failed, Differs} {
		m.Cells = append(m.Cells, Cell{Verdict: want})
		if got := m.Worst(); got != want {
			t.Errorf("worst is %s, want %s", got, want)
		}
	}
}

func TestTheMatrixFitsANarrowTerminal(t *testing.T) {
	why := "ibv_reg_dmabuf_mr on rxe0 pd 0, 4096 bytes: operation not supported: driver: a driver without hardware imports no dma-bufs"
	m := Matrix{
		Devices: []Device{{"efa_0", "efa", "SRD", "WRITE", ""}, {"rxe0", "software", "RC", "WRITE", ""}, {"bad0", "", "", "", "it does not open"}},
		Exporters: []Exporter{{"host", "own", true, ""}, {"udmabuf", "", true, ""}, {"vgem", "", true, ""}, {"vfio:0000:3b:00.0:2", "", true, ""},
			{"cuda:0", "", false, "no library"}},
		Cells: []Cell{
			{Exporter: "host", Device: "efa_0", Verdict: Moved}, {Exporter: "host", Device: "rxe0", Verdict: Moved},
			{Exporter: "host", Device: "bad0", Verdict: Failed, Stage: "queue", Reason: "it does not open"},
			{Exporter: "udmabuf", Device: "efa_0", Verdict: Moved}, {Exporter: "udmabuf", Device: "rxe0", Verdict: Refused, Stage: "register", Reason: why},
			{Exporter: "vgem", Device: "efa_0", Verdict: Differs, Stage: "in", Reason: "bytes differ"},
			{Exporter: "vgem", Device: "rxe0", Verdict: Refused, Stage: "register", Reason: why},
			{Exporter: "vfio:0000:3b:00.0:2", Device: "efa_0", Verdict: Refused, Stage: "register", Reason: "no path", KernelLog: []string{"efa 0000:43:00.0: cannot be used for peer-to-peer DMA"}},
			{Exporter: "cuda:0", Device: "efa_0", Verdict: Absent, Stage: "available", Reason: "no library"},
			{Exporter: "cuda:0", Device: "rxe0", Verdict: Absent, Stage: "available", Reason: "no library"},
		},
	}
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "matrix.txt", b.Bytes())
	for line := range strings.Lines(b.String()) {
		if len(line) > 81 || strings.HasSuffix(line, " \n") {
			t.Errorf("%q", line)
		}
	}
}

func TestOnlyPeersAreReadOfTheKernelLog(t *testing.T) {
	const text = "efa 0000:43:00.0: cannot be used for peer-to-peer DMA as the client and provider (0000:83:00.0) do not share an upstream bridge or whitelisted host bridge"
	for record, want := range map[string]string{
		"4,812,54781679,-;" + text + "\n SUBSYSTEM=pci\n DEVICE=+pci:0000:43:00.0\n": text,
		"6,339,5140900,-;NET: Registered protocol family 10\n":                       "",
		"no record": "", "": "", "4,1,1,-;": "",
	} {
		if got := tellsOfPeers(record); got != want {
			t.Errorf("%q tells %q", record, got)
		}
	}
}

func FuzzKernelLog(f *testing.F) {
	f.Add("4,812,54781679,-;efa 0000:43:00.0: cannot be used for peer-to-peer DMA as the client and provider\n K=V\n")
	f.Fuzz(func(t *testing.T, record string) {
		if strings.Contains(tellsOfPeers(record), "\n") {
			t.Error("more than a line")
		}
	})
}
