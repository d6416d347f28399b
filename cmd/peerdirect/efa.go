package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/efa/wire"
	"github.com/spf13/cobra"
)

// efaSchema names what serve --json prints for each device.
const efaSchema = "peerdirect.efa.serve/1"

func newEFA() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "efa",
		Short: "Emulate EFA devices for the upstream driver",
		Long: `efa emulates EFA devices that the upstream kernel driver binds to, for virtual
machines of one's own; 'peerdirect lab run --efa N' does the same in the lab.
docs/efa-device.md says what is modelled.`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newEFAServe())
	return cmd
}

// apiVersions are the versions of the admin interface by name.
var apiVersions = map[string]uint16{"0.1": wire.APIVersion01, "0.2": wire.APIVersion02, "0.3": wire.APIVersion03}

// efaServe is what serve is asked for.
type efaServe struct {
	socket         string
	nodes, devices int
	api            string
	reorder        bool
	keepAlive      time.Duration
	adminFaults    []string
	trace          bool
	json           bool

	fabric   device.FabricOptions
	faults   device.FaultPlan
	function device.FunctionOptions
	admin    []device.AdminFault
}

func newEFAServe() *cobra.Command {
	var s efaServe
	cmd := &cobra.Command{
		Use:   "serve --socket PATH",
		Short: "Serve EFA devices to virtual machines, over vfio-user",
		Long: `serve makes EFA devices and joins them by one fabric. Each waits on a socket of
its own for QEMU (10.1 or later) to connect, and the guest finds a PCI function
that the upstream efa driver binds to. serve prints a line a device as soon as
all listen: the socket, a tab, and QEMU's argument. It ends on SIGINT or
SIGTERM.

One device has PATH for its socket; several have PATH for a folder, with
sockets PATH/nodeI-devJ.sock. A guest's devices should all be of one node. The
guest's memory must be a shared file, for example

  -object memory-backend-memfd,id=mem,size=2G,share=on
  -machine q35,memory-backend=mem

--admin-fault makes admin commands go wrong: COMMAND:FAULT[:COUNT], where
COMMAND is upstream's name (CREATE_CQ) or ANY, and FAULT is timeout,
no-interrupt, bad-checksum or a status (RESOURCE_ALLOCATION_FAILURE). Each
device has its own.`,
		Example: `  peerdirect efa serve --socket efa.sock --trace
  peerdirect efa serve --socket sockets --nodes 2 --devices 4 --loss 0.01
  peerdirect efa serve --socket efa.sock \
    --admin-fault CREATE_QP:RESOURCE_ALLOCATION_FAILURE:2`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.check(); err != nil {
				return usageError{err}
			}
			return s.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.socket, "socket", "", "`path` of the device's socket, or of the folder of several devices' (required)")
	f.IntVar(&s.nodes, "nodes", 1, "how many machines the devices are for")
	f.IntVar(&s.devices, "devices", 1, "devices of each machine")
	f.Uint64Var(&s.fabric.Seed, "seed", 0, "seed of the order of delivery, the faults and the addresses (default 0)")
	f.StringVar(&s.api, "api", "0.3", "`version` of the admin interface: 0.1, 0.2 or 0.3")
	f.IntVar(&s.function.SubCQs, "sub-cqs", 1, "sub-CQs in a completion queue, 1 or 2")
	f.BoolVar(&s.reorder, "reorder", true, "deliver out of order, as SRD does")
	f.Float64Var(&s.faults.Loss, "loss", 0, "`share` of packets that are lost, 0 to 1 (default 0)")
	f.DurationVar(&s.function.Latency, "latency", 0, "time that each device adds, one way (default 0s)")
	f.Float64Var(&s.function.LineRate, "gbps", 0, "rate of each device, `Gbit/s`; 0 is as fast as it goes (default 0)")
	f.DurationVar(&s.keepAlive, "keep-alive", time.Second, "time between keep-alive notifications; 0 is never")
	f.StringArrayVar(&s.adminFaults, "admin-fault", nil, "`COMMAND:FAULT[:COUNT]`, as above; repeatable (default none)")
	f.BoolVar(&s.trace, "trace", false, "tell every admin command on standard error")
	f.BoolVar(&s.json, "json", false, "print JSON, one device a line, schema "+efaSchema)
	complete(cmd, "api", "0.1", "0.2", "0.3")
	complete(cmd, "sub-cqs", "1", "2")
	return cmd
}

// check judges the flags and turns them into options.
func (s *efaServe) check() error {
	version, ok := apiVersions[s.api]
	switch {
	case s.socket == "":
		return errors.New("--socket is missing: the path where the devices listen")
	case s.nodes < 1 || s.devices < 1 || s.nodes*s.devices > 1024:
		return fmt.Errorf("--nodes %d --devices %d: 1 to 1024 devices together", s.nodes, s.devices)
	case !ok:
		return fmt.Errorf("--api %s: choose 0.1, 0.2 or 0.3", s.api)
	case s.function.SubCQs != 1 && s.function.SubCQs != 2:
		return fmt.Errorf("--sub-cqs %d: choose 1 or 2", s.function.SubCQs)
	case s.faults.Loss < 0 || s.faults.Loss >= 1:
		return fmt.Errorf("--loss %g: a share from 0 to below 1", s.faults.Loss)
	case s.function.Latency < 0 || s.function.LineRate < 0 || s.keepAlive < 0:
		return errors.New("--latency, --gbps and --keep-alive cannot be negative")
	}
	for _, text := range s.adminFaults {
		fault, err := parseAdminFault(text)
		if err != nil {
			return fmt.Errorf("--admin-fault %s: %w", text, err)
		}
		s.admin = append(s.admin, fault)
	}
	s.fabric.InOrder = !s.reorder
	s.faults.Seed = s.fabric.Seed
	s.function.APIVersion = version
	s.function.KeepAlive = s.keepAlive
	if s.keepAlive == 0 {
		s.function.KeepAlive = -1
	}
	return nil
}
