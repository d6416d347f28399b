package device

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// Regions of a function, by VFIO's index: its BARs, and the configuration space.
const (
	regionRegisters = wire.BARRegisters
	regionLLQ       = wire.BARMemory
	regionDoorbells = doorbellBAR
	regionConfig    = 7

	interruptMSIX = 2 // VFIO's index for the only kind of interrupt
)

// FunctionOptions say what a function is. The zero value, on a fabric, is a
// device as the newest driver likes it. Options.Memory and Options.Interrupt are
// the way to whoever has the function: see package vfiouser.
type FunctionOptions struct {
	Options

	// DeviceID is the PCI device id, wire.DeviceEFA0 to DeviceEFA4: by default
	// EFA1, or EFA0 with two sub-CQs, which no other has.
	DeviceID uint16
	// APIVersion is what the register VERSION tells, wire.APIVersion01 to
	// APIVersion03, by default the last. From 0.2 on completions have
	// checksums, and from 0.3 on the driver may use 128-byte commands.
	APIVersion uint16
	// Vectors is the number of MSI-X vectors, default 33, at most 256: one for
	// the admin queue, the others for event queues.
	Vectors int
	// KeepAlive is the time between keep-alive notifications, default a
	// second; below 0 there are none.
	KeepAlive time.Duration

	// Trace is told of every admin command, when it is done. It is called by
	// who writes the doorbell and must not call the function.
	Trace func(AdminTrace)
}

// AdminTrace is an admin command and how it ended.
type AdminTrace struct {
	Op      wire.Opcode
	ID      uint16           // the command's
	Payload []byte           // of the command; valid during the call
	Err     error            // nil, or why the device refused: a *StatusError
	Fault   *AdminFault      // what was injected
	Status  wire.AdminStatus // as completed
}

// Function is the PCI function of a device: configuration space, registers, admin
// queue and notifications, as the driver finds them. It satisfies what package
// vfiouser serves; that package and this know nothing of each other.
//
// Reads and writes of regions may come from any goroutine and are carried out one
// at a time; those that make no sense are ignored, as hardware does.
type Function struct {
	dev  *Device
	opts FunctionOptions

	mu     sync.Mutex // of one access
	config configSpace
	regs   registers
	msix   [0x1000]byte // the vector table, which the client emulates; only kept
	aq     adminQueue
	host   *wire.HostInfo
	pages  map[uint32]int // of each region, by local key
	// allPages are those of all regions together.
	allPages int

	aenq   notifications
	faults adminFaults
	status atomic.Uint32 // DEV_STS, which faults change from outside
	// resetting keeps a reset of our own apart from one that somebody made
	// behind the driver's back.
	resetting atomic.Bool
}

// NewFunction makes a device on a fabric and the function that is its face.
func NewFunction(f *Fabric, o FunctionOptions) (*Function, error) {
	if o.DeviceID == 0 {
		o.DeviceID = wire.DeviceEFA1
		if o.SubCQs == 2 {
			o.DeviceID = wire.DeviceEFA0
		}
	}
	if o.APIVersion == 0 {
		o.APIVersion = wire.APIVersion03
	}
	if o.Vectors == 0 {
		o.Vectors = 33
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = time.Second
	}
	switch {
	case o.DeviceID < wire.DeviceEFA0 || o.DeviceID > wire.DeviceEFA4:
		return nil, fmt.Errorf("efa function: device id %#x: the driver knows %#x to %#x", o.DeviceID, wire.DeviceEFA0, wire.DeviceEFA4)
	case o.APIVersion < wire.APIVersion01 || o.APIVersion > wire.APIVersion03:
		return nil, fmt.Errorf("efa function: API version %d.%d: choose 0.1, 0.2 or 0.3", o.APIVersion>>8, o.APIVersion&0xff)
	case o.Vectors < 1 || o.Vectors > maxVectors:
		return nil, fmt.Errorf("efa function: %d MSI-X vectors: there can be 1 to %d", o.Vectors, maxVectors)
	}
	fn := &Function{}
	told := o.Event
	o.Event = func(e Event) {
		fn.happened(e)
		if told != nil {
			told(e)
		}
	}
	dev, err := f.NewDevice(o.Options)
	if err != nil {
		return nil, err
	}
	fn.dev, fn.opts = dev, o
	fn.opts.Options = dev.opts
	fn.fresh()
	fn.aenq.start(fn)
	return fn, nil
}

// Device is what stands behind the function.
func (f *Function) Device() *Device { return f.dev }

// Close ends the function and its device.
func (f *Function) Close() error {
	f.aenq.stop()
	return f.dev.Close()
}

// HostInfo gives what the driver told about itself, and whether it did.
func (f *Function) HostInfo() (wire.HostInfo, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.host == nil {
		return wire.HostInfo{}, false
	}
	return *f.host, true
}

// Region gives a region's size in bytes, by VFIO's index, 0 if there is none.
func (f *Function) Region(index int) uint64 {
	switch index {
	case regionRegisters:
		return registerBARSize
	case regionLLQ:
		return barSize(len(f.dev.LLQ()))
	case regionDoorbells:
		return doorbellBARLength
	case regionConfig:
		return configSize
	}
	return 0
}

// Interrupts gives the number of vectors of an interrupt type, by VFIO's index.
func (f *Function) Interrupts(index int) int {
	if index == interruptMSIX {
		return f.opts.Vectors
	}
	return 0
}

// ReadRegion reads from a region, within its size.
func (f *Function) ReadRegion(index int, offset uint64, p []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(p)
	switch index {
	case regionConfig:
		f.config.read(offset, p)
	case regionRegisters:
		f.readRegisters(offset, p)
	case regionLLQ:
		if llq := f.dev.LLQ(); offset < uint64(len(llq)) {
			copy(p, llq[offset:])
		}
	}
	// Doorbells read as zero.
	return nil
}

// WriteRegion writes to a region, within its size.
func (f *Function) WriteRegion(index int, offset uint64, p []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch index {
	case regionConfig:
		if f.config.write(offset, p) {
			f.powerOn()
		}
	case regionRegisters:
		f.writeRegisters(offset, p)
	case regionLLQ:
		if llq := f.dev.LLQ(); offset < uint64(len(llq)) {
			copy(llq[offset:], p)
		}
	case regionDoorbells:
		// One store of a driver's: 32 bits, or 64 that are two doorbells.
		if offset%4 == 0 && len(p)%4 == 0 {
			for ; len(p) >= 4; p = p[4:] {
				f.dev.Ring(uint32(offset), uint32(p[0])|uint32(p[1])<<8|uint32(p[2])<<16|uint32(p[3])<<24)
				offset += 4
			}
		}
	}
	return nil
}

// Reset is a reset of the function as at power-on: everything is forgotten, and
// no memory is touched when it returns.
func (f *Function) Reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.powerOn()
}

// powerOn resets everything. f.mu is held.
func (f *Function) powerOn() {
	f.resetDevice()
	f.fresh()
}

// fresh is the function's own state after power-on.
func (f *Function) fresh() {
	f.config.init(f.opts.DeviceID, f.opts.Vectors, barSize(len(f.dev.LLQ())))
	f.msix = [0x1000]byte{}
	f.forget()
	f.status.Store(uint32(wire.DevStsReady))
}

// forget loses what the driver has set up.
func (f *Function) forget() {
	f.regs = registers{}
	f.aq = adminQueue{}
	f.host = nil
	f.pages, f.allPages = map[uint32]int{}, 0
	f.faults.lost.Store(false)
}

// resetDevice resets what the register DEV_CTL resets: all but the PCI side. f.mu
// is held.
func (f *Function) resetDevice() {
	f.aenq.disable()
	f.resetting.Store(true)
	f.dev.Reset()
	f.resetting.Store(false)
	f.forget()
}

// interrupt raises a vector, if anybody listens.
func (f *Function) interrupt(vector uint8) {
	if f.opts.Interrupt != nil {
		f.opts.Interrupt(int(vector))
	}
}

// happened makes of a device's event what its driver sees of it. No lock of the
// device's is held, but f.mu may be, by a command that led to the event.
func (f *Function) happened(e Event) {
	switch e.Kind {
	case EventFatal:
		f.status.Or(uint32(wire.DevStsFatalError))
		f.aenq.post(wire.AENQFatalError, 0, nil)
	case EventReset:
		if !f.resetting.Load() {
			// Objects and queues are gone, and no command is answered until
			// the driver resets the device too.
			f.aenq.disable()
			f.faults.lost.Store(true)
		}
	case EventWarning:
		f.aenq.post(wire.AENQWarning, 0, nil)
	case EventLinkDown, EventLinkUp:
		f.aenq.post(wire.AENQNotification, uint16(e.Kind), nil)
	case EventDrained:
		f.aenq.post(wire.AENQNotification, uint16(e.Kind), []byte{byte(e.QP), byte(e.QP >> 8)})
	}
}
