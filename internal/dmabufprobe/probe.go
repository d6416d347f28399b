// Package dmabufprobe tries every exporter of memory with every RDMA device:
// it allocates, exports, registers, has the device move a page out and in,
// compares the bytes, and takes all down again. What comes of it is a matrix
// with a verdict in each cell, and why.
package dmabufprobe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/internal/errname"
	"github.com/peerdirect/peerdirect/internal/umem"
	"github.com/peerdirect/peerdirect/internal/uname"
)

// Schema names the form of a Matrix in JSON.
const Schema = "peerdirect.dmabuf.probe/1"

// HostMemory is the row of memory by its address, without a dma-buf: it tells a
// device that cannot move from memory that it cannot reach.
const HostMemory = "host"

// Verdict is what came of one exporter with one device.
type Verdict string

const (
	Moved   Verdict = "moved"   // the bytes went out and in, and were the same
	Refused Verdict = "refused" // a part said no, for a reason that is understood
	Absent  Verdict = "absent"  // the exporter cannot be used here
	Differs Verdict = "differs" // bytes came out wrong
	Failed  Verdict = "failed"  // something went wrong that should not
)

// Options choose what is tried.
type Options struct {
	Exporters []string // names; nil is all that package dmabuf knows, and HostMemory
	Devices   []string // names; nil is every RDMA device of the machine
	Embedded  bool     // a software EFA device in this process too
	// Progress is told of each cell before it is tried.
	Progress func(exporter, device string)
}

// Matrix is what came of it.
type Matrix struct {
	Schema    string     `json:"schema"`
	Kernel    string     `json:"kernel"`
	Devices   []Device   `json:"devices"`
	Exporters []Exporter `json:"exporters"`
	Cells     []Cell     `json:"cells"` // by exporter, then device
}

// Device is a column.
type Device struct {
	Name      string `json:"name"`
	Driver    string `json:"driver"`
	Transport string `json:"transport"` // SRD, RC, iWARP
	Operation string `json:"operation"` // what moves the page: WRITE, SEND; "" if nothing can
	Problem   string `json:"problem,omitempty"`
}

// Exporter is a row.
type Exporter struct {
	Name      string `json:"name"`
	Memory    string `json:"memory"` // what it is
	Available bool   `json:"available"`
	Problem   string `json:"problem,omitempty"`
}

// Cell is one exporter with one device.
type Cell struct {
	Exporter string  `json:"exporter"`
	Device   string  `json:"device"`
	Verdict  Verdict `json:"verdict"`
	// Stage is where it ended: available, allocate, export, register, queue,
	// fill, out, in, deregister; "" of what moved.
	Stage     string   `json:"stage,omitempty"`
	Errno     string   `json:"errno,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	KernelLog []string `json:"kernel_log,omitempty"`

	Err error `json:"-"`
}

// Cell gives a cell by its names, nil if there is none.
func (m *Matrix) Cell(exporter, device string) *Cell {
	for i := range m.Cells {
		if c := &m.Cells[i]; c.Exporter == exporter && c.Device == device {
			return c
		}
	}
	return nil
}

// Worst is the verdict to end with: Differs before Failed before Moved, which
// stands for all that is well or understood.
func (m *Matrix) Worst() Verdict {
	worst := Moved
	for _, c := range m.Cells {
		if c.Verdict == Differs {
			return Differs
		}
		if c.Verdict == Failed {
			worst = Failed
		}
	}
	return worst
}

// Run tries everything. It fails only where nothing can be tried: an exporter
// or a device of a name that there is not, or no device at all.
func Run(ctx context.Context, o Options) (*Matrix, error) {
	m := &Matrix{Schema: Schema, Kernel: uname.Release()}
	rows, err := exporters(o.Exporters)
	if err != nil {
		return nil, err
	}
	columns, err := openDevices(o)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, c := range columns {
			c.close()
		}
	}()
	for _, r := range rows {
		e := Exporter{Name: r.name, Memory: "a process's own memory, by its address", Available: true}
		var missing error
		if r.exporter != nil {
			e.Memory = r.exporter.Describe()
			if missing = r.exporter.Available(); missing != nil {
				e.Available, e.Problem = false, missing.Error()
			}
		}
		m.Exporters = append(m.Exporters, e)
		for _, c := range columns {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if o.Progress != nil {
				o.Progress(r.name, c.info.Name)
			}
			cell := Cell{Exporter: r.name, Device: c.info.Name, Verdict: Moved}
			switch {
			case missing != nil:
				cell.end(stage{"available", missing})
				cell.Verdict = Absent
			case c.err != nil:
				cell.end(stage{"queue", c.err})
				cell.Verdict = Failed
			default:
				log := openKernelLog()
				if s := try(ctx, r, c); s.err != nil {
					cell.end(s)
					cell.KernelLog = log.read()
				}
				log.close()
			}
			m.Cells = append(m.Cells, cell)
		}
	}
	for _, c := range columns {
		m.Devices = append(m.Devices, c.info)
	}
	return m, nil
}

// row is an exporter, or the host's memory.
type row struct {
	name     string
	exporter dmabuf.Exporter // nil of the host's
}

func exporters(names []string) ([]row, error) {
	if names == nil {
		rows := []row{{name: HostMemory}}
		for _, e := range dmabuf.Exporters() {
			rows = append(rows, row{e.Name(), e})
		}
		return rows, nil
	}
	var rows []row
	for _, name := range names {
		if name == HostMemory {
			rows = append(rows, row{name: HostMemory})
			continue
		}
		e, err := dmabuf.Open(name)
		if err != nil {
			return nil, &NameError{err}
		}
		rows = append(rows, row{e.Name(), e})
	}
	return rows, nil
}

// NameError is an exporter that there is not.
type NameError struct{ Err error }

func (e *NameError) Error() string { return e.Err.Error() }
func (e *NameError) Unwrap() error { return e.Err }

// stage is a step that failed.
type stage struct {
	name string
	err  error
}

// end fills in how a cell failed.
func (c *Cell) end(s stage) {
	c.Stage, c.Err, c.Verdict = s.name, s.err, Failed
	c.Reason = strings.TrimPrefix(s.err.Error(), c.Exporter+": ")
	var errno syscall.Errno
	if errors.As(s.err, &errno) {
		c.Errno = errname.Of(errno)
	}
	switch {
	case errors.Is(s.err, errDiffers):
		c.Verdict = Differs
	case s.name != "out" && s.name != "in" && s.name != "deregister" && understood(s.err):
		c.Verdict = Refused
	}
}

// understood are errors by which a kernel, driver or device says that it does
// not do this, as against one that it went wrong.
func understood(err error) bool {
	for _, class := range []error{
		errors.ErrUnsupported, umem.ENOTSUPP, syscall.EPROTONOSUPPORT, syscall.EPERM, syscall.EACCES, syscall.ENODEV, syscall.EREMOTEIO,
	} {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}

// errDiffers: the bytes are others than were sent.
var errDiffers = errors.New("bytes differ")

func differs(where string, got, want []byte) error {
	n, first := 0, -1
	for i := range want {
		if got[i] != want[i] {
			if n++; first < 0 {
				first = i
			}
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d of %d %s, the first at %d: %#02x instead of %#02x", errDiffers, n, len(want), where, first, got[first], want[first])
}
