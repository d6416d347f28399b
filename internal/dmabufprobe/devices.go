package dmabufprobe

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/internal/umem"
	"github.com/peerdirect/peerdirect/verbs"
)

// EmbeddedName is the column of the device in this process.
const EmbeddedName = "embedded"

// patience is how long a page may take: an emulated processor is slow.
const patience = 20 * time.Second

// column is a device.
type column struct {
	info  Device
	err   error                 // it could not be opened
	queue func() (queue, error) // a fresh one: a failure leaves its own dead
	shut  []func() error
}

func (c *column) close() {
	for _, f := range slices.Backward(c.shut) {
		f()
	}
}

// queue moves bytes between two regions of one device.
type queue interface {
	register(mem []byte) (region, error)
	registerDMABuf(fd int, offset, length, iova uint64) (region, error)
	// ready says why the device moves nothing, if so.
	ready() error
	// move has the device copy n bytes from the start of one region to the
	// start of the other.
	move(ctx context.Context, to, from region, n int) error
	close() error
}

type region interface{ close() error }

// openDevices opens the columns. One that cannot be opened is a column all the
// same; one that there is not is an error.
func openDevices(o Options) ([]*column, error) {
	var names []string
	if o.Devices != nil || !o.Embedded {
		all, err := verbs.Devices()
		if err != nil {
			return nil, err
		}
		for _, d := range all {
			if o.Devices == nil || slices.Contains(o.Devices, d.Name) {
				names = append(names, d.Name)
			}
		}
	}
	for _, name := range o.Devices {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("no RDMA device %s: %w", name, verbs.ErrNoDevice)
		}
	}
	var columns []*column
	for _, name := range names {
		columns = append(columns, openDevice(name))
	}
	if o.Embedded {
		columns = append(columns, openEmbedded())
	}
	return columns, nil
}

func openDevice(name string) *column {
	c := &column{info: Device{Name: name}}
	c.info.Driver, _ = umem.ReadDevice("/", name)
	dev, err := efa.Open(name)
	if err == nil {
		c.overSRD(dev)
	} else if errors.Is(err, efa.ErrNoDevice) {
		err = c.overRC(name)
	}
	if c.err = err; err != nil {
		c.info.Problem = err.Error()
	}
	return c
}

func openEmbedded() *column {
	c := &column{info: Device{Name: EmbeddedName, Driver: "efa"}}
	fabric := device.NewFabric(device.FabricOptions{})
	c.shut = append(c.shut, func() error { fabric.Close(); return nil })
	dev, err := efa.Embedded(fabric, device.Options{})
	if err != nil {
		c.err, c.info.Problem = err, err.Error()
		return c
	}
	c.overSRD(dev)
	return c
}

// overSRD makes the column of an EFA device.
func (c *column) overSRD(dev *efa.Device) {
	c.shut = append(c.shut, dev.Close)
	c.info.Transport, c.info.Operation = "SRD", "SEND"
	if dev.Attr().Caps&efa.CapWrite != 0 {
		c.info.Operation = "WRITE"
	}
	c.queue = func() (queue, error) { return newSRD(dev) }
}

// srd is an endpoint that talks to itself.
type srd struct {
	dev   *efa.Device
	ep    *efa.Endpoint
	ah    *efa.AH
	to    *efa.Dest
	batch *efa.Batch
	recvs *efa.RecvBatch
	write bool
}

func newSRD(dev *efa.Device) (_ queue, err error) {
	q := &srd{dev: dev, write: dev.Attr().Caps&efa.CapWrite != 0}
	defer func() {
		if err != nil {
			q.close()
		}
	}()
	if q.ep, err = dev.CreateSRD(efa.SRDOptions{MaxSend: 4, MaxRecv: 4}); err != nil {
		return nil, err
	}
	a := q.ep.Address()
	if q.ah, err = dev.CreateAH(a.GID); err != nil {
		return nil, err
	}
	q.to = q.ah.To(a.QPN, a.QKey)
	q.batch, q.recvs = q.ep.Batch(), q.ep.RecvBatch()
	return q, nil
}

func (q *srd) close() error {
	var errs []error
	if q.batch != nil {
		q.batch.Close()
		q.recvs.Close()
	}
	if q.ah != nil {
		errs = append(errs, q.ah.Close())
	}
	if q.ep != nil {
		errs = append(errs, q.ep.Close())
	}
	return errors.Join(errs...)
}

func (q *srd) ready() error { return nil }

type srdRegion struct{ *efa.MR }

func (r srdRegion) close() error { return r.Close() }

func (q *srd) access() efa.Access {
	if q.write {
		return efa.LocalWrite | efa.RemoteWrite
	}
	return efa.LocalWrite
}

func (q *srd) register(mem []byte) (region, error) {
	mr, err := q.dev.Register(mem, q.access())
	return srdRegion{mr}, err
}

func (q *srd) registerDMABuf(fd int, offset, length, iova uint64) (region, error) {
	mr, err := q.dev.RegisterDMABuf(fd, offset, length, iova, q.access())
	return srdRegion{mr}, err
}

func (q *srd) move(ctx context.Context, to, from region, n int) error {
	src, dst := from.(srdRegion), to.(srdRegion)
	want := 1
	if q.write {
		q.batch.Write(q.to, src.At(0, uint32(n)), dst.Remote().At(0), 1)
	} else {
		want = 2
		q.recvs.Recv(dst.At(0, uint32(n)), 2)
		if err := q.recvs.Post(); err != nil {
			return err
		}
		q.batch.Send(q.to, src.At(0, uint32(n)), 1)
	}
	if err := q.batch.Post(); err != nil {
		return err
	}
	var out [2]efa.Completion
	return await(ctx, want, func() (int, error) {
		k, err := q.ep.Poll(out[:])
		for _, c := range out[:k] {
			if err == nil {
				err = c.Err()
			}
		}
		return k, err
	})
}

// await polls until so many completions came.
func await(ctx context.Context, want int, poll func() (int, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for want > 0 {
		k, err := poll()
		if err != nil {
			return err
		}
		if want -= k; k == 0 {
			if ctx.Err() != nil {
				return fmt.Errorf("the device does not complete: %w", ctx.Err())
			}
			runtime.Gosched()
		}
	}
	return nil
}
