package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/efa/vfiouser"
)

// MaxEFA is how many EFA devices a guest has at most.
const MaxEFA = 32

// EFA says which EFA devices the guests have. They are emulated by this process
// and joined by one fabric; the guests' driver is the kernel's, unmodified.
type EFA struct {
	Count int // of each guest, up to MaxEFA

	Fabric device.FabricOptions
	Faults device.FaultPlan // of everything on the fabric

	// Function is what every device is like. Its name, its memory and its
	// interrupts are the lab's to set.
	Function device.FunctionOptions
	// Made, if set, is told of every device before its guest boots: to inject
	// faults, or to look at it later. It is the lab's to close.
	Made func(node, index int, f *device.Function)
}

// efaServers are the EFA devices of a run, each with the socket that one QEMU
// connects to. A nil *efaServers has none.
type efaServers struct {
	log          io.Writer
	accelerators *acceleratorMemory
	dir          string // of the sockets, for this user alone, gone once all are connected
	paths        [][]string
	fabric       *device.Fabric
	functions    []*device.Function
	awaited      atomic.Int32 // sockets that nobody has connected to
	cancel       context.CancelFunc
	servers      sync.WaitGroup
}

// serve makes the devices of all nodes and serves them. They listen when it
// returns. The caller ends them with close.
func (e EFA) serve(nodes int, accelerators *acceleratorMemory, log io.Writer) (*efaServers, error) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &efaServers{log: log, accelerators: accelerators, cancel: cancel, fabric: device.NewFabric(e.Fabric)}
	s.fabric.Faults().Set(e.Faults)
	var err error
	if s.dir, err = os.MkdirTemp("", "peerdirect-lab-"); err != nil {
		cancel()
		s.fabric.Close()
		return nil, err
	}
	s.awaited.Store(int32(nodes * e.Count))
	s.paths = make([][]string, nodes)
	for node := range nodes {
		for i := range e.Count {
			path := filepath.Join(s.dir, fmt.Sprintf("%d.%d", node, i))
			f, err := s.add(ctx, path, fmt.Sprintf("node%d efa_%d", node, i), e.Function)
			if err != nil {
				s.close()
				return nil, err
			}
			s.paths[node] = append(s.paths[node], path)
			if e.Made != nil {
				e.Made(node, i, f)
			}
		}
	}
	return s, nil
}

// add makes one device and serves it at path.
func (s *efaServers) add(ctx context.Context, path, name string, o device.FunctionOptions) (*device.Function, error) {
	server := vfiouser.NewServer(vfiouser.Options{Marked: s.accelerators.holds})
	o.Name, o.Memory, o.Interrupt = name, guestMemory{server.Memory()}, server.MSIX
	function, err := device.NewFunction(s.fabric, o)
	if err != nil {
		return nil, err
	}
	s.functions = append(s.functions, function)
	l, err := vfiouser.Listen(path)
	if err != nil {
		return nil, err
	}
	s.servers.Go(func() {
		conn, err := s.accept(ctx, l)
		if err == nil {
			err = server.ServeConn(ctx, conn, function)
		}
		if err != nil && ctx.Err() == nil {
			fmt.Fprintf(s.log, "lab: %s: %v\n", name, err)
		}
	})
	return function, nil
}

// accept waits for QEMU, which connects once. The socket's name is of no use
// afterwards, so it does not stay: whatever ends this process, nothing is left.
func (s *efaServers) accept(ctx context.Context, l *net.UnixListener) (*net.UnixConn, error) {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	conn, err := l.AcceptUnix()
	l.Close()
	if s.awaited.Add(-1) == 0 {
		os.Remove(s.dir)
	}
	return conn, err
}

// sockets gives the paths of a node's sockets, in the order of its devices.
func (s *efaServers) sockets(node int) []string {
	if s == nil {
		return nil
	}
	return s.paths[node]
}

// close ends the servers and the devices, and waits for them.
func (s *efaServers) close() {
	if s == nil {
		return
	}
	s.cancel()
	s.servers.Wait()
	for _, f := range s.functions {
		f.Close()
	}
	s.fabric.Close()
	os.RemoveAll(s.dir)
}

// efaArguments gives QEMU's arguments for a device on each socket, in its slot.
func efaArguments(sockets []string, slots []pcieSlot) (args []string) {
	for i, path := range sockets {
		// A socket is a structure, which only JSON can express here.
		var d struct {
			Driver string `json:"driver"`
			Bus    string `json:"bus,omitempty"`
			Socket struct {
				Type string `json:"type"`
				Path string `json:"path"`
			} `json:"socket"`
		}
		d.Driver, d.Bus = "vfio-user-pci", slots[i].bus
		d.Socket.Type, d.Socket.Path = "unix", path
		b, err := json.Marshal(d)
		if err != nil {
			panic(err) // strings alone
		}
		args = append(args, "-device", string(b))
	}
	return args
}

// check tells what of the options makes no sense.
func (e EFA) check() error {
	switch {
	case e.Count < 0 || e.Count > MaxEFA:
		return fmt.Errorf("%d EFA devices: a machine has 0 to %d", e.Count, MaxEFA)
	case e.Function.Memory != nil || e.Function.Interrupt != nil:
		return errors.New("memory and interrupts of an EFA device are the lab's to set")
	}
	return nil
}
