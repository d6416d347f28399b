package transfer

import (
	"cmp"
	"fmt"
	"time"

	"github.com/peerdirect/peerdirect/efa"
)

// EFAOptions describe a rail over SRD. Zero fields take the default in the
// comment.
type EFAOptions struct {
	Device    string        // the kernel's name, "efa_0"
	SendDepth int           // operations in flight; default 128
	RecvDepth int           // messages and notices a peer may send ahead; default 128, or what the device has for each
	Peers     int           // how many can connect; default 1
	Spin      time.Duration // how long Wait polls before it sleeps; default 20 us

	// On is a device that is open already, instead of Device. The rail closes it.
	On *efa.Device

	embedded *Embedded // whose fabric has the device, instead of the kernel
	node     int
}

func (o *EFAOptions) defaults() error {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	set(&o.SendDepth, 128)
	set(&o.Peers, 1)
	if o.Spin == 0 {
		o.Spin = 20 * time.Microsecond
	}
	for _, bound := range []struct {
		name      string
		v, lo, hi int
	}{
		{"send depth", o.SendDepth, 2, 1 << 15},
		{"receive depth", cmp.Or(o.RecvDepth, minReceives), minReceives, 1 << 15},
		{"peers", o.Peers, 1, maxEFAPeers},
	} {
		if bound.v < bound.lo || bound.v > bound.hi {
			return &OptionError{Option: bound.name, Err: fmt.Errorf("%d is not within %d and %d", bound.v, bound.lo, bound.hi)}
		}
	}
	return nil
}

// Kind tells the kernel's devices from software ones: they are on other fabrics.
func (o EFAOptions) Kind() Kind {
	if o.embedded != nil {
		return KindEmbedded
	}
	return KindEFA
}

// DeviceName is the device's.
func (o EFAOptions) DeviceName() string {
	if o.On != nil {
		return o.On.Name()
	}
	return o.Device
}

// NICs is 1.
func (o EFAOptions) NICs() int { return 1 }

// Open opens a rail for a transfer. SRD needs one queue pair, however many are
// wanted.
func (o EFAOptions) Open(w Want) (Rail, error) {
	if w.Depth > 0 && o.SendDepth < w.Depth+spare {
		o.SendDepth = w.Depth + spare
	}
	if w.Peers > 0 {
		o.Peers = w.Peers
	}
	if w.Receives > 0 {
		o.RecvDepth = w.Receives
	}
	if w.NoSpin {
		o.Spin = time.Nanosecond
	}
	r, err := OpenEFA(o)
	if err != nil {
		return nil, err // and no *EFA that is nil
	}
	return r, nil
}

// share divides the receives that the device has among the peers, if RecvDepth does
// not.
func (o *EFAOptions) share(device string, all int) error {
	if o.RecvDepth == 0 {
		o.RecvDepth = max(min(128, all/o.Peers), minReceives)
	}
	if o.Peers*o.RecvDepth > all {
		return &OptionError{Option: "receive depth", Err: fmt.Errorf("%d peers with %d receives each; %s has %d in all, which is enough for %d peers with the least of %d: open it for fewer, or several devices",
			o.Peers, o.RecvDepth, device, all, all/minReceives, minReceives)}
	}
	return nil
}
