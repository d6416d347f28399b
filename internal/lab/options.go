package lab

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Link is the software RDMA driver that a guest puts on its network card.
type Link string

const (
	LinkRXE  Link = "rxe"  // RoCE version 2, device rxe0
	LinkSIW  Link = "siw"  // iWARP, device siw0
	LinkNone Link = "none" // the card alone
)

// device names the RDMA device that the link makes, "" for none.
func (l Link) device() string {
	if l == LinkNone {
		return ""
	}
	return string(l) + "0"
}

const (
	// DefaultTimeout bounds a run unless Options.Timeout is set.
	DefaultTimeout = 10 * time.Minute
	// DefaultMemory is a guest's memory in MiB.
	DefaultMemory = 1024
	// DefaultCPUs is a guest's number of processors.
	DefaultCPUs = 2
	// MaxNodes is how many guests one run has at most: the addresses are one
	// byte, and a machine that has room for more is rare.
	MaxNodes = 64

	// minMemory is what the largest kernel boots with, MiB.
	minMemory = 256

	// grace is how long the others may go on after one node has failed.
	grace = 10 * time.Second
	// jumbo is the link's MTU in bytes: RXE then has its largest, 4096.
	jumbo = 9000
)

// Options says what to run. The zero value, with a Command, is one guest with
// the default kernel and an rxe device.
type Options struct {
	Kernel       Kernel        // default: DefaultKernel
	Nodes        int           // default 1
	CPUs         int           // of each, default DefaultCPUs
	Memory       int           // of each, MiB, default DefaultMemory
	Link         Link          // default LinkRXE, or LinkNone if there are EFA devices
	EFA          EFA           // software EFA devices of each
	Accelerators Accelerators  // of each
	IOMMU        bool          // each has one, which vfio needs; devices that do not ask for translation have none
	ACS          bool          // the switch port above each accelerator has access control services
	Layer        Layer         // programs laid over the root, default none
	Modules      []string      // more kernel modules to load, each with its parameters after blanks
	Accel        string        // AccelTCG (the default), "kvm", or AccelAuto
	Timeout      time.Duration // of the whole run, default DefaultTimeout

	Command []string // run in every guest, found in the guest's PATH
	Env     []string // added to its environment, NAME=VALUE
	Source  string   // folder seen as /peerdirect/src, default the working folder
	Out     string   // folder seen as /peerdirect/out, writable; made if absent
	Agent   string   // executable that runs as the guest's process 1 as "lab guest", default this one

	// QEMU gives a node's further arguments for QEMU, and files that it is to
	// inherit from descriptor FirstFD on: the seam for emulated devices. A
	// guest's memory is a shared file already.
	QEMU func(node int) (args []string, files []*os.File, err error)

	Stdout, Stderr io.Writer // of the commands; lines carry "nodeN | " if there are several nodes
	Log            io.Writer // what the lab itself has to say; default Stderr
	Keep           bool      // keep the folder with the guests' kernel logs

	// Terminal, if set, is what the command of the one node runs on.
	Terminal *Terminal
}

// Terminal connects a guest's command to a terminal.
type Terminal struct {
	Input  io.Reader
	Name   string // TERM
	Rows   int
	Cols   int
	Resize <-chan [2]int // rows and columns, whenever they change
}

// ExitError is a command's failure in a guest, the first if there are several.
type ExitError struct {
	Node   int
	Status int // as a shell gives it: 128 and the signal, 127 not found
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("node%d: exit status %d", e.Node, e.Status)
}

// GuestError is the failure of a guest rather than of its command: it did not
// boot, it died, or it did not end in time.
type GuestError struct {
	Node    int
	Problem string
	Console string // the end of its kernel's log
}

func (e *GuestError) Error() string {
	s := fmt.Sprintf("node%d: %s", e.Node, e.Problem)
	if e.Console != "" {
		s += fmt.Sprintf("; the end of its kernel's log:\n%s", indent(e.Console))
	}
	return s
}

func indent(s string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ")
}

// setDefaults fills in what is not set.
func (o *Options) setDefaults() (err error) {
	if o.Kernel.Series == "" {
		if o.Kernel, err = KernelBySeries(DefaultKernel); err != nil {
			return err
		}
	}
	o.Nodes = cmp.Or(o.Nodes, 1)
	o.CPUs = cmp.Or(o.CPUs, DefaultCPUs)
	o.Memory = cmp.Or(o.Memory, DefaultMemory)
	if o.Link == "" && o.EFA.Count > 0 {
		o.Link = LinkNone
	}
	o.Link = cmp.Or(o.Link, LinkRXE)
	o.Accel = cmp.Or(o.Accel, AccelTCG)
	o.Accelerators.Memory = cmp.Or(o.Accelerators.Memory, DefaultAcceleratorMemory)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	if o.Stdout == nil {
		o.Stdout = io.Discard
	}
	if o.Stderr == nil {
		o.Stderr = io.Discard
	}
	if o.Log == nil {
		o.Log = o.Stderr
	}
	if o.Agent == "" {
		if o.Agent, err = os.Executable(); err != nil {
			return err
		}
	}
	if o.Source == "" {
		if o.Source, err = os.Getwd(); err != nil {
			return err
		}
	}
	if o.Out != "" {
		if err = os.MkdirAll(o.Out, 0o755); err != nil {
			return err
		}
		if o.Out, err = filepath.Abs(o.Out); err != nil {
			return err
		}
	}
	return nil
}

// Check tells what of the options makes no sense, without doing anything. Zero
// values are defaults, and fine.
func (o *Options) Check() error {
	switch {
	case len(o.Command) == 0:
		return errors.New("no command to run in the lab")
	case o.Nodes < 0 || o.Nodes > MaxNodes:
		return fmt.Errorf("%d nodes: the lab has 1 to %d", o.Nodes, MaxNodes)
	case o.CPUs < 0:
		return fmt.Errorf("%d processors: a guest has at least 1", o.CPUs)
	case o.Memory != 0 && o.Memory < minMemory:
		return fmt.Errorf("%d MiB of memory: a guest needs %d", o.Memory, minMemory)
	case !slices.Contains([]Link{"", LinkRXE, LinkSIW, LinkNone}, o.Link):
		return fmt.Errorf("no link %q: choose rxe, siw or none", o.Link)
	case !slices.Contains([]string{"", AccelTCG, AccelKVM, AccelAuto, AccelICount}, o.Accel):
		return fmt.Errorf("no accelerator %q: choose tcg, kvm, auto or icount", o.Accel)
	case o.EFA.check() != nil:
		return o.EFA.check()
	case o.Accelerators.check() != nil:
		return o.Accelerators.check()
	case o.ACS && (o.Accelerators.Count == 0 || o.Accelerators.Count+o.EFA.Count == 1):
		return errors.New("access control is a matter of switch ports above accelerators: give the machine an accelerator and another device")
	case o.Timeout < 0:
		return fmt.Errorf("a timeout of %s is over before it begins", o.Timeout)
	case o.Terminal != nil && o.Nodes > 1:
		return errors.New("a terminal has one node")
	}
	return nil
}
