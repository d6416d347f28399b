package device

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// DefaultMTU is the packet payload of EFA, in bytes.
const DefaultMTU = 8928

// FabricOptions say what network to make. The zero value delivers out of order,
// as SRD does, and loses nothing.
type FabricOptions struct {
	Seed uint64 // of the order of delivery and of made-up addresses
	MTU  int    // bytes of payload in a packet; default DefaultMTU
	// InOrder delivers each queue pair's messages, and each message's packets, in
	// the order posted. Real SRD does not.
	InOrder bool
}

// Fabric joins devices: whatever address one has, all others reach. Link joins it
// to another. It is safe for concurrent use.
type Fabric struct {
	opts   FabricOptions
	faults Faults

	mu      sync.Mutex
	closed  bool
	nextID  uint64
	ranks   map[Memory]uint64 // order in which memories are locked
	members atomic.Pointer[map[wire.GID]*Device]
	fars    atomic.Pointer[map[wire.GID]*far] // devices that links lead to
	links   map[*Link]bool
	// changes counts changes of members, so that who looked one up knows when to
	// look again.
	changes atomic.Uint64
}

// NewFabric makes a network without devices.
func NewFabric(o FabricOptions) *Fabric {
	if o.MTU <= 0 {
		o.MTU = DefaultMTU
	}
	f := &Fabric{opts: o, ranks: map[Memory]uint64{}, links: map[*Link]bool{}}
	f.members.Store(&map[wire.GID]*Device{})
	f.fars.Store(&map[wire.GID]*far{})
	return f
}

// Faults injects into everything that crosses the fabric.
func (f *Fabric) Faults() *Faults { return &f.faults }

// MTU is the fabric's packet payload in bytes.
func (f *Fabric) MTU() int { return f.opts.MTU }

// NewDevice makes a device and starts it. It runs until its Close or the fabric's.
func (f *Fabric) NewDevice(o Options) (*Device, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, fmt.Errorf("efa device: make device: %w", ErrClosed)
	}
	f.nextID++
	id := f.nextID
	if o.Name == "" {
		o.Name = fmt.Sprintf("efa%d", id-1)
	}
	if o.GUID == 0 {
		o.GUID = mix(f.opts.Seed, id) | 2<<56 // locally administered
	}
	if o.GID == (wire.GID{}) {
		// A link-local address, as EFA's are.
		o.GID[0], o.GID[1] = 0xfe, 0x80
		binary.BigEndian.PutUint64(o.GID[8:], o.GUID)
	}
	old := *f.members.Load()
	if old[o.GID] != nil || f.far(o.GID) != nil {
		return nil, illegal("make device", "the fabric already has a device of GID %x", o.GID)
	}
	rank, ok := f.ranks[o.Memory]
	if !ok {
		rank = id
		f.ranks[o.Memory] = rank
	}
	d := newDevice(f, id, rank, o)
	f.replace(func(m map[wire.GID]*Device) { m[o.GID] = d })
	return d, nil
}

// replace changes the members. f.mu is held.
func (f *Fabric) replace(change func(map[wire.GID]*Device)) {
	m := map[wire.GID]*Device{}
	for k, v := range *f.members.Load() {
		m[k] = v
	}
	change(m)
	f.members.Store(&m)
	f.changes.Add(1)
}

// leave takes a closed device out.
func (f *Fabric) leave(d *Device) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replace(func(m map[wire.GID]*Device) { delete(m, d.opts.GID) })
	for _, other := range *f.members.Load() {
		if other.opts.Memory == d.opts.Memory {
			return
		}
	}
	delete(f.ranks, d.opts.Memory)
}

// far gives the device of an address that a link leads to, nil if there is none.
func (f *Fabric) far(gid wire.GID) *far { return (*f.fars.Load())[gid] }

// Reaches tells whether a device of that address is on the fabric, or a link leads
// to it.
func (f *Fabric) Reaches(gid wire.GID) bool { return f.find(gid) != nil || f.far(gid) != nil }

// find gives the device of an address, nil if there is none.
func (f *Fabric) find(gid wire.GID) *Device { return (*f.members.Load())[gid] }

// Devices gives the fabric's devices in no order.
func (f *Fabric) Devices() []*Device {
	var all []*Device
	for _, d := range *f.members.Load() {
		all = append(all, d)
	}
	return all
}

// Close closes all links and devices. It may be called again.
func (f *Fabric) Close() {
	f.mu.Lock()
	f.closed = true
	var links []*Link
	for l := range f.links {
		links = append(links, l)
	}
	f.mu.Unlock()
	for _, l := range links {
		l.Close()
	}
	for _, d := range f.Devices() {
		d.Close()
	}
}

// mix is one step of splitmix64 over two words: decisions are drawn from what they
// are about, not from a sequence, so they do not depend on scheduling.
func mix(a, b uint64) uint64 {
	z := a + b*0x9e3779b97f4a7c15 + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
