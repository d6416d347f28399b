//go:build cgo

package efa

import (
	"context"
	"unsafe"

	"github.com/peerdirect/peerdirect/verbs"
)

func pointer(mem []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(mem)) }

// kernelCQ is a completion queue of the kernel's driver.
type kernelCQ struct {
	cq     *verbs.CQ
	ch     *verbs.Channel // nil without Notify
	memory *cqMemory
	sgid   bool
	batch  [32]verbs.ExtCompletion
}

func (k *kernel) createCQ(o CQOptions) (queue, error) {
	q := &kernelCQ{sgid: o.SGID}
	v := verbs.CQOptions{Depth: o.Depth, Vector: o.Vector, WC: verbs.WCStandard}
	if o.SGID || o.Unsolicited || o.Memory != nil {
		v.Create = dvCreateCQ(o)
		if o.SGID || o.Unsolicited {
			v.Read = dvReader(o)
		}
	}
	var err error
	if o.Notify {
		if q.ch, err = k.dev.CreateChannel(); err != nil {
			return nil, err
		}
		v.Channel = q.ch
	}
	if q.cq, err = k.dev.CreateCQ(v); err != nil {
		if q.ch != nil {
			q.ch.Close()
		}
		return nil, err
	}
	if k.how.Direct {
		m, err := dvQueryCQ(q.cq.Handle(), k.dev.Name())
		if err == nil && o.Notify && !m.armed {
			// libefa before rdma-core 60 tells no doorbell.
			err = &Error{Op: "efadv_query_cq", Object: k.dev.Name(), Err: ErrUnsupported,
				Detail: "the library tells no doorbell for events: install rdma-core 60 or newer, or open the device with Library"}
		}
		if err != nil {
			q.close()
			return nil, err
		}
		// Only for events: a queue that raises none is spared the writes.
		m.armed = m.armed && o.Notify
		q.memory = &m
	}
	return q, nil
}

func (q *kernelCQ) depth() int      { return q.cq.Depth() }
func (q *kernelCQ) ring() *cqMemory { return q.memory }
func (q *kernelCQ) arm() error      { return q.cq.RequestNotify(false) }

func (q *kernelCQ) wait(ctx context.Context) error {
	_, err := q.ch.Wait(ctx)
	return err
}

// poll asks the library. A read that failed is not told from a send.
func (q *kernelCQ) poll(out []Completion) (int, error) {
	n, err := q.cq.PollExt(q.batch[:min(len(out), len(q.batch))])
	for i := range n {
		w := &q.batch[i]
		c := &out[i]
		*c = Completion{
			ID: w.ID, QPN: uint16(w.QPN), Status: Status(w.VendorErr), Op: OpSend,
		}
		if w.Status != verbs.StatusSuccess {
			if c.Status == StatusOK {
				c.Status = StatusQPInternal
			}
			continue
		}
		c.Status = StatusOK
		switch w.Opcode {
		case verbs.CompletedWrite:
			c.Op = OpWrite
			continue
		case verbs.CompletedRecv:
			c.Op = OpRecv
		case verbs.CompletedRecvWriteImm:
			c.Op = OpRecvWrite
		default:
			continue
		}
		c.Bytes, c.SrcQPN, c.AH = w.Bytes, uint16(w.SrcQP), w.SLID
		if imm, ok := w.Imm(); ok {
			c.Imm, c.Flags = imm, WithImm
		}
		if w.DriverFlags&1 != 0 {
			c.Flags |= Unsolicited
			c.ID = 0
		}
		if q.sgid && c.AH == UnknownAH {
			c.SGID = GID(w.SGID)
		}
	}
	return n, err
}

func (q *kernelCQ) close() error {
	if err := q.cq.Close(); err != nil || q.ch == nil {
		return err
	}
	return q.ch.Close()
}
