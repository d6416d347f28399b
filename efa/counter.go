package efa

// CounterOps are operations that feed a completion counter
// (enum ibv_qp_attach_comp_cntr_op of rdma-core 65).
type CounterOps uint32

const (
	CounterSend        CounterOps = 1 << 0
	CounterRecv        CounterOps = 1 << 1
	CounterRead        CounterOps = 1 << 2
	CounterRemoteRead  CounterOps = 1 << 3
	CounterWrite       CounterOps = 1 << 4
	CounterRemoteWrite CounterOps = 1 << 5
)

func (o CounterOps) String() string {
	return bitNames(uint64(o), "SEND", "RECV", "RDMA_READ", "REMOTE_RDMA_READ", "RDMA_WRITE", "REMOTE_RDMA_WRITE")
}

// CounterOptions say where a counter's two words lie, 8 aligned bytes each in
// host byte order; nil leaves that to the library, or to this package. The memory
// is mapped or C memory, unless the device is an embedded one, and stays until
// the counter is closed.
type CounterOptions struct {
	Done, Failed *CounterMemory
}

// CounterMemory is a word of memory, or of a dma-buf if FD is not 0.
type CounterMemory struct {
	Mapped []byte // the word; of a dma-buf it may be nil
	FD     int
	Offset uint64
}

// Counter counts completions in hardware, beside the queue that lists them
// (efadv_create_comp_cntr). It takes CapCounters.
type Counter struct {
	object
	dev *Device
	ctl counter
}

// CreateCounter makes a counter of work requests.
func (d *Device) CreateCounter(o CounterOptions) (*Counter, error) {
	c := &Counter{dev: d}
	if err := c.attach("create counter", "counter", &d.object); err != nil {
		return nil, err
	}
	var err error
	if c.ctl, err = d.ctl.createCounter(o); err != nil {
		c.detach()
		return nil, err
	}
	return c, nil
}

// AttachCounter has operations of the endpoint feed the counter, which cannot be
// closed before the endpoint.
func (ep *Endpoint) AttachCounter(c *Counter, ops CounterOps) error {
	ep.life.Lock()
	defer ep.life.Unlock()
	if ep.life.Closed() {
		return &Error{Op: "attach counter", Object: ep.describe(), Err: ErrClosed}
	}
	if err := c.hold("attach counter", &ep.object); err != nil {
		return err
	}
	if err := ep.ctl.attach(c.ctl, ops); err != nil {
		c.drop(&ep.object)
		return err
	}
	ep.life.Rest(&c.life, nil)
	return nil
}

// Read gives how many completed well and how many failed.
func (c *Counter) Read() (done, failed uint64, err error) {
	err = c.call("read counter", func() (err error) { done, failed, err = c.ctl.read(); return err })
	return done, failed, err
}

// Set sets both counts, which must stand still meanwhile.
func (c *Counter) Set(done, failed uint64) error {
	return c.call("set counter", func() error { return c.ctl.set(done, failed) })
}

// Add adds to both counts.
func (c *Counter) Add(done, failed uint64) error {
	return c.call("add to counter", func() error { return c.ctl.add(done, failed) })
}

func (c *Counter) call(op string, f func() error) error {
	c.life.Lock()
	defer c.life.Unlock()
	if c.life.Closed() {
		return &Error{Op: op, Object: c.dev.describe(c.name()), Err: ErrClosed}
	}
	return f()
}

// Close destroys the counter. It is ErrBusy while endpoints feed it.
func (c *Counter) Close() error { return c.close("destroy counter", c.ctl.close) }
