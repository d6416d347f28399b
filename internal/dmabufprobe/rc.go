package dmabufprobe

import (
	"context"
	"errors"
	"fmt"

	"github.com/peerdirect/peerdirect/verbs"
)

// overRC makes the column of any other device.
func (c *column) overRC(name string) error {
	dev, err := verbs.Open(name)
	if err != nil {
		return err
	}
	c.shut = append(c.shut, dev.Close)
	c.info.Transport, c.info.Operation = "RC", "WRITE"
	if dev.Transport() == verbs.TransportIWARP {
		c.info.Transport, c.info.Operation = "iWARP", ""
	}
	c.queue = func() (queue, error) { return newRC(dev) }
	return nil
}

// rc is a pair of queue pairs of one device, connected to each other. An iWARP
// device has none: it takes connections of rdma_cm alone.
type rc struct {
	pd    *verbs.PD
	cq    *verbs.CQ
	qp    [2]*verbs.RC
	batch *verbs.Batch
}

func newRC(dev *verbs.Device) (_ queue, err error) {
	q := &rc{}
	defer func() {
		if err != nil {
			q.close()
		}
	}()
	if q.pd, err = dev.AllocPD(); err != nil {
		return nil, err
	}
	if dev.Transport() == verbs.TransportIWARP {
		return q, nil
	}
	if q.cq, err = dev.CreateCQ(verbs.CQOptions{Depth: 8}); err != nil {
		return nil, err
	}
	var ends [2]verbs.Endpoint
	for i := range q.qp {
		if q.qp[i], err = q.pd.CreateRC(verbs.QPOptions{CQ: q.cq, MaxSend: 4}); err != nil {
			return nil, err
		}
		if ends[i], err = q.qp[i].Endpoint(); err != nil {
			return nil, err
		}
	}
	for i := range q.qp {
		if err = q.qp[i].Connect(ends[1-i], verbs.ConnectOptions{}); err != nil {
			return nil, err
		}
	}
	q.batch = q.qp[0].Batch()
	return q, nil
}

func (q *rc) close() error {
	var errs []error
	if q.batch != nil {
		q.batch.Close()
	}
	for _, qp := range q.qp {
		if qp != nil {
			errs = append(errs, qp.Close())
		}
	}
	if q.cq != nil {
		errs = append(errs, q.cq.Close())
	}
	if q.pd != nil {
		errs = append(errs, q.pd.Close())
	}
	return errors.Join(errs...)
}

func (q *rc) ready() error {
	if q.batch == nil {
		return fmt.Errorf("%w: an iWARP device is connected by rdma_cm, which probe does not do; registering is all that was tried", errors.ErrUnsupported)
	}
	return nil
}

type rcRegion struct{ *verbs.MR }

func (r rcRegion) close() error { return r.Close() }

const rcAccess = verbs.LocalWrite | verbs.RemoteWrite

func (q *rc) register(mem []byte) (region, error) {
	mr, err := q.pd.Register(mem, rcAccess)
	return rcRegion{mr}, err
}

func (q *rc) registerDMABuf(fd int, offset, length, iova uint64) (region, error) {
	mr, err := q.pd.RegisterDMABuf(fd, offset, length, iova, rcAccess)
	return rcRegion{mr}, err
}

func (q *rc) move(ctx context.Context, to, from region, n int) error {
	q.batch.Write(from.(rcRegion).At(0, uint32(n)), to.(rcRegion).Remote().At(0), 1)
	if err := q.batch.Post(); err != nil {
		return err
	}
	var out [1]verbs.Completion
	return await(ctx, 1, func() (int, error) {
		k, err := q.cq.Poll(out[:])
		if k > 0 && err == nil {
			err = out[0].Err()
		}
		return k, err
	})
}
