package transfer

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
)

// EmbeddedName is what names of embedded devices begin with.
const EmbeddedName = "embedded"

// EmbeddedUsage is the form that [ParseEmbedded] reads.
const EmbeddedUsage = EmbeddedName + "[:nodes=2,nics=4,latency=20us,gbps=100,seed=1]"

// EmbeddedOptions say which software devices to make. Zero fields take the
// default in the comment.
type EmbeddedOptions struct {
	Nodes   int           // default 2
	NICs    int           // of each node, default 1
	Latency time.Duration // one way through each device; default none
	Gbps    float64       // of each device, Gbit/s; default as fast as it goes
	Seed    uint64        // of the order that the fabric delivers in; default random

	PeerTimeout time.Duration // how long a peer may be silent; default 3 s
}

// maxEmbeddedNodes is as many as one process has any use for.
const maxEmbeddedNodes = 64

// ParseEmbedded reads the name of embedded devices, see [EmbeddedUsage]. ok is
// false for names of other devices.
func ParseEmbedded(name string) (o EmbeddedOptions, ok bool, err error) {
	head, rest, more := strings.Cut(name, ":")
	if head != EmbeddedName {
		return o, false, nil
	}
	wrong := func(err error) (EmbeddedOptions, bool, error) {
		return o, true, &OptionError{Option: "device", Err: fmt.Errorf("%q: %w; it is %s", name, err, EmbeddedUsage)}
	}
	if !more {
		return o, true, nil
	}
	for _, setting := range strings.Split(rest, ",") {
		key, value, _ := strings.Cut(setting, "=")
		var err error
		switch key {
		case "nodes":
			o.Nodes, err = parseCount(value, maxEmbeddedNodes)
		case "nics":
			o.NICs, err = parseCount(value, MaxNICs)
		case "latency":
			if o.Latency, err = time.ParseDuration(value); err == nil && (o.Latency < 0 || o.Latency > time.Second) {
				err = errors.New("it is 0 to 1s")
			}
		case "gbps":
			if o.Gbps, err = strconv.ParseFloat(value, 64); err == nil && !(o.Gbps > 0 && o.Gbps <= 1e5) {
				err = errors.New("it is above 0, to 100000")
			}
		case "seed":
			o.Seed, err = strconv.ParseUint(value, 0, 64)
		default:
			return wrong(fmt.Errorf("nothing is called %q", key))
		}
		if err != nil {
			return wrong(fmt.Errorf("%s: %w", key, err))
		}
	}
	return o, true, nil
}

func parseCount(s string, most int) (int, error) {
	n, err := strconv.Atoi(s)
	if err == nil && (n < 1 || n > most) {
		err = fmt.Errorf("%d is not within 1 and %d", n, most)
	}
	return n, err
}

// Embedded are nodes inside this process: software EFA devices (package
// efa/device) on one fabric, driven through the same rings and by the same code
// as hardware. It needs no privilege, no driver and no library.
type Embedded struct {
	o      EmbeddedOptions
	fabric *device.Fabric
	id     fabricID
}

// NewEmbedded makes the fabric. The devices come and go with the rails that are
// opened on them.
func NewEmbedded(o EmbeddedOptions) (*Embedded, error) {
	if o.Nodes == 0 {
		o.Nodes = 2
	}
	if o.NICs == 0 {
		o.NICs = 1
	}
	if o.Nodes < 1 || o.Nodes > maxEmbeddedNodes || o.NICs < 1 || o.NICs > MaxNICs {
		return nil, &OptionError{Option: "device", Err: fmt.Errorf("%d embedded nodes with %d NICs each; there are 1 to %d with 1 to %d",
			o.Nodes, o.NICs, maxEmbeddedNodes, MaxNICs)}
	}
	var id fabricID
	rand.Read(id[:])
	seed := o.Seed
	if seed == 0 {
		// Addresses are drawn from it too, and must differ between processes.
		var b [8]byte
		rand.Read(b[:])
		seed = binary.LittleEndian.Uint64(b[:])
	}
	return &Embedded{o: o, id: id, fabric: device.NewFabric(device.FabricOptions{Seed: seed})}, nil
}

// Nodes is how many nodes there are.
func (e *Embedded) Nodes() int { return e.o.Nodes }

// Fabric joins the nodes: the place to inject faults, and to link fabrics of two
// processes, whose nodes connect from then on.
func (e *Embedded) Fabric() *device.Fabric { return e.fabric }

// ID tells the fabric from those of other processes.
func (e *Embedded) ID() string { return hex.EncodeToString(e.id[:]) }

// EmbeddedOf gives the nodes that an opener's devices belong to, nil where they are
// the machine's.
func EmbeddedOf(o Opener) *Embedded {
	if n, ok := o.(NICs); ok {
		o = n[0] // they are of one kind
	}
	if nic, ok := o.(EFAOptions); ok {
		return nic.embedded
	}
	return nil
}

// Node opens rails on a node's NICs, which are called efa_0 and so on.
func (e *Embedded) Node(node int) Opener {
	nics := make([]Opener, e.o.NICs)
	for i := range nics {
		nics[i] = EFAOptions{Device: fmt.Sprintf("efa_%d", i), embedded: e, node: node}
	}
	if len(nics) == 1 {
		return nics[0]
	}
	return NICs(nics)
}

// Close ends the fabric and what is left of its devices. It may be called on a
// nil Embedded, and again.
func (e *Embedded) Close() error {
	if e != nil {
		e.fabric.Close()
	}
	return nil
}
