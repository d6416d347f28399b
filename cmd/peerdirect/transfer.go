package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/pages"
	"github.com/peerdirect/peerdirect/transfer/report"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newTransfer() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "transfer",
		Short: "Move scattered pages from one machine's memory into another's",
		Long: `transfer moves pages that are not contiguous from the memory of one machine into
pages that are not contiguous of another's, or of several others' at once: one
RDMA WRITE for each contiguous run, or with --read a READ by the receiver, a
done notice by an immediate, what the two have to agree on by SEND. Every page
is checked against the sender's CRC-32C, and the pages that differ are named.

The two prove themselves to each other over an encrypted TCP connection, with a
token that both know or with certificates ('peerdirect cert'). It then serves to
connect the NICs and to notice the end of the peer; no page goes through it. A
listener on the loopback address that is given neither makes a token and shows
it.

Devices are InfiniBand, RoCE, iWARP or EFA ones of this machine, several of one
kind if they are named, or software EFA devices inside this process, the default
on a machine without any RDMA device: 'transfer to' without an address then runs
both ends. Those of two processes reach each other through a second TCP
connection, which the pages then do go through; the result says how many bytes.
Where one of several NICs fails, the others do its part again, and the result
says so.

The pages lie in memory of the process, or with --memory in an accelerator's or
another driver's, which the NIC reaches by its dma-buf ('peerdirect dmabuf list'
has them). Each side chooses its own. Nothing is copied through host memory
instead: where the NIC's driver takes no dma-bufs, the transfer ends before it
begins.

A listener binds to the loopback address unless it is given another, serves
several senders at once, and gives each no more memory than --max-bytes.

Exit codes: 1 the peer or the network failed, or an interrupt ended a transfer;
2 a flag that makes no sense, no credentials, or no such port or GID index; 3 no
such device, or none that has such memory; 4 no permission to use it, or the
other side has another token or certificate; 5 memory that is not supported
here, or not by this NIC; 6 pages differ.`,
		Example: `  head -c 24 /dev/urandom | base64 >token       # known to both machines
  peerdirect transfer listen --listen 192.0.2.1 --token-file token
  peerdirect transfer to 192.0.2.1 --token-file token
  peerdirect transfer to --device embedded:nodes=2,nics=4`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTransferListen(), newTransferTo())
	return cmd
}

// transferFlags are those of both sides.
type transferFlags struct {
	pages.Options
	credentialFlags
	device string
	rails  string
	memory string
	view   *liveView
	rc     transfer.RCOptions
	gid    int
	json   bool
}

func (t *transferFlags) register(f *pflag.FlagSet) {
	f.StringVarP(&t.device, "device", "d", "", deviceUsage)
	f.StringVar(&t.rails, "rails", "", railsUsage)
	f.StringVarP(&t.memory, "memory", "m", transfer.HostMemory, memoryUsage("this side's"))
	f.IntVarP(&t.rc.Port, "ib-port", "i", 1, "port of the device")
	f.IntVarP(&t.gid, "gid-index", "x", -1, "index into the port's GID table; -1 chooses, RoCE v2 and IPv4 first")
	f.IntVarP(&t.Queues, "qp", "q", 1, "queue pairs of each NIC that share the writes, the same on both sides; EFA and iWARP have one")
	f.IntVar(&t.Batch, "batch", 16, "runs of pages that are handed to the engine, and told to the receiver, at once")
	f.IntVar(&t.Depth, "depth", 256, "runs of pages on their way to a peer")
	f.IntVar(&t.Workers, "workers", 1, "threads that drive the NICs, each some of them")
	f.DurationVar(&t.Timeout, "timeout", 30*time.Second, "end a transfer in which nothing happens for so long")
	t.credentialFlags.register(f)
	f.BoolVar(&t.json, "json", false, "print the result as JSON, schema "+pages.Schema)
}

// open opens the node. Devices that are embedded are given back as well, and must be
// closed after it; nil stands for the machine's.
func (t *transferFlags) open(stderr io.Writer) (node *pages.Node, embedded *transfer.Embedded, err error) {
	if err := t.find(stderr, &embedded); err != nil {
		return nil, nil, err
	}
	if node, err = pages.Open(t.Options); err != nil {
		embedded.Close()
		return nil, nil, err
	}
	t.view.show(node.Stats)
	return node, embedded, nil
}

// find finds the devices and the memory.
func (t *transferFlags) find(stderr io.Writer, embedded **transfer.Embedded) (err error) {
	if t.gid >= 0 {
		t.rc.GIDIndex = &t.gid
	}
	t.Version, t.Near = version(), t.rails == railsNear
	t.Control.Peer = t.name
	t.view = newLiveView(stderr)
	t.Tell = t.view.tell
	if t.Memory, err = memoryNamed(t.memory); err != nil {
		return err
	}
	if t.Rail, *embedded, err = openDevices(t.device, t.rc, stderr); err != nil {
		return err
	}
	if *embedded != nil && (t.rc.Port != 1 || t.gid != -1) {
		(*embedded).Close()
		return usageError{errors.New("--ib-port and --gid-index are for NICs of this machine: a software device has one port and one GID")}
	}
	if t.Rail, err = chooseRails(t.Rail, t.rails); err != nil {
		(*embedded).Close()
	}
	return err
}

func (t *transferFlags) check() error {
	switch {
	case t.rc.Port < 1:
		return usageError{fmt.Errorf("--ib-port %d: ports are numbered from 1", t.rc.Port)}
	case t.gid < -1:
		return usageError{fmt.Errorf("--gid-index %d: indexes begin at 0, and -1 chooses", t.gid)}
	case t.Timeout <= 0:
		return usageError{fmt.Errorf("--timeout %v: it must be above 0", t.Timeout)}
	case t.Batch < 1 || t.Depth < 1 || t.Queues < 1 || t.Workers < 1:
		return usageError{fmt.Errorf("--batch, --depth, --qp and --workers must be above 0")}
	}
	return nil
}

// withPort adds the default port to an address without one.
func withPort(addr string) string {
	if _, _, err := net.SplitHostPort(addr); err == nil {
		return addr
	}
	return net.JoinHostPort(strings.Trim(addr, "[]"), pages.DefaultPort)
}

// printTransfer prints a result, as JSON on one line if there may be several.
func printTransfer(w io.Writer, r *pages.Result, asJSON, alone bool) error {
	if !asJSON {
		return report.Text(w, r)
	}
	e := json.NewEncoder(w)
	if alone {
		e.SetIndent("", "  ")
	}
	return e.Encode(r)
}
