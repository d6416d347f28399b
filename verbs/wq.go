package verbs

/*
#include "shim.h"

static struct ibv_wq *vb_create_wq(struct ibv_context *c, struct ibv_wq_init_attr *a)
{
	struct verbs_context *v = VB_OP(c, create_wq);
	struct ibv_wq *wq;

	if (!v)
		return NULL;
	errno = 0;
	wq = v->create_wq(c, a);
	// What the header's own wrapper sets up: events count under this lock.
	if (wq) {
		wq->events_completed = 0;
		pthread_mutex_init(&wq->mutex, NULL);
		pthread_cond_init(&wq->cond, NULL);
	}
	return wq;
}

static int vb_modify_wq(struct ibv_wq *wq, int state)
{
	struct ibv_wq_attr a = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = state};
	struct verbs_context *v = VB_OP(wq->context, modify_wq);

	return v ? vb_rc(v->modify_wq(wq, &a)) : EOPNOTSUPP;
}

static int vb_destroy_wq(struct ibv_wq *wq)
{
	struct verbs_context *v = VB_OP(wq->context, destroy_wq);

	return v ? vb_rc(v->destroy_wq(wq)) : EOPNOTSUPP;
}

static struct ibv_rwq_ind_table *vb_create_table(struct ibv_context *c, struct ibv_wq **wqs, uint32_t log_size)
{
	struct ibv_rwq_ind_table_init_attr a = {.log_ind_tbl_size = log_size, .ind_tbl = wqs};
	struct verbs_context *v = VB_OP(c, create_rwq_ind_table);

	if (!v)
		return NULL;
	errno = 0;
	return v->create_rwq_ind_table(c, &a);
}

static int vb_destroy_table(struct ibv_rwq_ind_table *t)
{
	struct verbs_context *v = VB_OP(t->context, destroy_rwq_ind_table);

	return v ? vb_rc(v->destroy_rwq_ind_table(t)) : EOPNOTSUPP;
}
*/
import "C"

import (
	"fmt"
	"math/bits"
	"runtime"
	"syscall"
	"unsafe"
)

// WQState is a work queue's state (enum ibv_wq_state).
type WQState int

const (
	WQReset WQState = iota
	WQReady
	WQError
)

// WQFlags are properties of a work queue (enum ibv_wq_flags).
type WQFlags uint32

const (
	WQCVLANStripping     WQFlags = 1 << 0
	WQScatterFCS         WQFlags = 1 << 1
	WQDelayDrop          WQFlags = 1 << 2
	WQPCIWriteEndPadding WQFlags = 1 << 3
)

// WQOptions size a work queue.
type WQOptions struct {
	CQ    *CQ
	Max   int // receives; default 128
	SGE   int // buffers a receive; default 1
	Flags WQFlags
}

// WQ is a receive queue of its own, for tables that spread packets over
// several.
type WQ struct {
	object
	dev *Device
	wq  *C.struct_ibv_wq
	max int
	sge int
}

// CreateWQ makes a work queue in the RESET state.
func (pd *PD) CreateWQ(o WQOptions) (*WQ, error) {
	if o.CQ == nil {
		return nil, &Error{Verb: "ibv_create_wq", Object: pd.describe(), Err: syscall.EINVAL, Detail: "a work queue needs a completion queue"}
	}
	if o.Max == 0 {
		o.Max = 128
	}
	if o.SGE == 0 {
		o.SGE = 1
	}
	w := &WQ{dev: pd.dev}
	if err := w.attach("ibv_create_wq", "wq", &pd.object, &o.CQ.object); err != nil {
		return nil, err
	}
	var a C.struct_ibv_wq_init_attr
	a.wq_type = C.IBV_WQT_RQ
	a.max_wr, a.max_sge = C.uint32_t(o.Max), C.uint32_t(o.SGE)
	a.pd, a.cq = pd.pd, o.CQ.cq
	if o.Flags != 0 {
		a.create_flags = C.uint32_t(o.Flags)
		a.comp_mask = C.IBV_WQ_INIT_ATTR_FLAGS
	}
	p, errno := C.vb_create_wq(pd.dev.ctx, &a)
	if p == nil {
		w.detach()
		return nil, failed("ibv_create_wq", fmt.Sprintf("%s, %d receives of %d buffers", pd.describe(), o.Max, o.SGE), errno, "")
	}
	w.wq, w.max, w.sge = p, int(a.max_wr), int(a.max_sge)
	w.rename("%d", uint32(p.wq_num))
	return w, nil
}

// Modify moves the work queue to another state.
func (w *WQ) Modify(s WQState) error {
	w.life.Lock()
	defer w.life.Unlock()
	if w.wq == nil {
		return &Error{Verb: "ibv_modify_wq", Object: w.describe(), Err: ErrClosed}
	}
	return code("ibv_modify_wq", w.describe(), int(C.vb_modify_wq(w.wq, C.int(s))), "")
}

// RecvBatch makes a batch of receives of up to the queue's size.
func (w *WQ) RecvBatch() *RecvBatch {
	return newRecvBatch(&RecvBatch{wq: w}, w.max, max(w.sge, 1))
}

// Handle is the struct ibv_wq, nil once the queue is closed.
func (w *WQ) Handle() unsafe.Pointer { return unsafe.Pointer(w.wq) }

func (w *WQ) describe() string { return w.dev.info.Name + " " + w.name() }

// Close destroys the queue. It is ErrBusy while tables use it.
func (w *WQ) Close() error {
	return w.close("ibv_destroy_wq", func() error {
		if err := code("ibv_destroy_wq", w.describe(), int(C.vb_destroy_wq(w.wq)), ""); err != nil {
			return err
		}
		w.wq = nil
		return nil
	})
}

// IndTable spreads received packets over work queues.
type IndTable struct {
	object
	dev   *Device
	table *C.struct_ibv_rwq_ind_table
}

// CreateIndTable makes a table. It has a power of two of entries; a queue may
// stand in several.
func (d *Device) CreateIndTable(queues []*WQ) (*IndTable, error) {
	verb := "ibv_create_rwq_ind_table"
	if bits.OnesCount(uint(len(queues))) != 1 {
		return nil, &Error{Verb: verb, Object: d.info.Name, Err: syscall.EINVAL,
			Detail: fmt.Sprintf("a table has a power of two of entries, not %d", len(queues))}
	}
	t := &IndTable{dev: d}
	parents := []*object{&d.object}
	list := make([]*C.struct_ibv_wq, len(queues))
	for i, q := range queues {
		list[i] = q.wq
		seen := false
		for _, p := range parents {
			seen = seen || p == &q.object
		}
		if !seen {
			parents = append(parents, &q.object)
		}
	}
	if err := t.attach(verb, "ind_table", parents...); err != nil {
		return nil, err
	}
	p, errno := C.vb_create_table(d.ctx, unsafe.SliceData(list), C.uint32_t(bits.TrailingZeros(uint(len(queues)))))
	if p == nil {
		t.detach()
		return nil, failed(verb, fmt.Sprintf("%s, %d entries", d.info.Name, len(queues)), errno, "")
	}
	t.table = p
	t.rename("%d", int(p.ind_tbl_num))
	return t, nil
}

// Handle is the struct ibv_rwq_ind_table, nil once the table is closed.
func (t *IndTable) Handle() unsafe.Pointer { return unsafe.Pointer(t.table) }

// Close destroys the table. It is ErrBusy while queue pairs use it.
func (t *IndTable) Close() error {
	return t.close("ibv_destroy_rwq_ind_table", func() error {
		if err := code("ibv_destroy_rwq_ind_table", t.dev.info.Name+" "+t.name(), int(C.vb_destroy_table(t.table)), ""); err != nil {
			return err
		}
		t.table = nil
		return nil
	})
}

// RXHashFields are the parts of a packet that choose its queue
// (enum ibv_rx_hash_fields).
type RXHashFields uint64

const (
	HashSrcIPv4    RXHashFields = 1 << 0
	HashDstIPv4    RXHashFields = 1 << 1
	HashSrcIPv6    RXHashFields = 1 << 2
	HashDstIPv6    RXHashFields = 1 << 3
	HashSrcPortTCP RXHashFields = 1 << 4
	HashDstPortTCP RXHashFields = 1 << 5
	HashSrcPortUDP RXHashFields = 1 << 6
	HashDstPortUDP RXHashFields = 1 << 7
	HashIPsecSPI   RXHashFields = 1 << 8
	HashInner      RXHashFields = 1 << 31
)

func (f RXHashFields) String() string {
	return bitNames(uint64(f), []bitName{
		{1 << 0, "SRC_IPV4"}, {1 << 1, "DST_IPV4"}, {1 << 2, "SRC_IPV6"}, {1 << 3, "DST_IPV6"},
		{1 << 4, "SRC_PORT_TCP"}, {1 << 5, "DST_PORT_TCP"}, {1 << 6, "SRC_PORT_UDP"}, {1 << 7, "DST_PORT_UDP"},
		{1 << 8, "IPSEC_SPI"}, {1 << 31, "INNER"},
	})
}

// RXHash is how packets are spread over a table's queues, by Toeplitz's hash.
type RXHash struct {
	Key    []byte // usually 40 bytes
	Fields RXHashFields
}

// fill puts the hash into attributes; its key is pinned until the function it
// gives is called.
func (h RXHash) fill(a *C.struct_ibv_qp_init_attr_ex) func() {
	var pin runtime.Pinner
	a.rx_hash_conf.rx_hash_function = C.IBV_RX_HASH_FUNC_TOEPLITZ
	a.rx_hash_conf.rx_hash_fields_mask = C.uint64_t(h.Fields)
	if len(h.Key) > 0 {
		p := unsafe.SliceData(h.Key)
		pin.Pin(p)
		a.rx_hash_conf.rx_hash_key = (*C.uint8_t)(p)
		a.rx_hash_conf.rx_hash_key_len = C.uint8_t(len(h.Key))
	}
	a.comp_mask |= C.IBV_QP_INIT_ATTR_RX_HASH
	return pin.Unpin
}
