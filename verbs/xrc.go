package verbs

/*
#include "shim.h"

static struct ibv_xrcd *vb_open_xrcd(struct ibv_context *c, int fd, int oflags)
{
	struct ibv_xrcd_init_attr a = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = oflags,
	};
	struct verbs_context *v = VB_OP(c, open_xrcd);

	if (!v)
		return NULL;
	errno = 0;
	return v->open_xrcd(c, &a);
}

static int vb_close_xrcd(struct ibv_xrcd *x)
{
	struct verbs_context *v = VB_OP(x->context, close_xrcd);

	return v ? vb_rc(v->close_xrcd(x)) : EOPNOTSUPP;
}

static struct ibv_qp *vb_open_qp(struct ibv_context *c, struct ibv_xrcd *x, uint32_t qpn, int type)
{
	struct ibv_qp_open_attr a = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = qpn,
		.xrcd = x,
		.qp_type = type,
	};
	struct verbs_context *v = VB_OP(c, open_qp);

	if (!v)
		return NULL;
	errno = 0;
	return v->open_qp(c, &a);
}
*/
import "C"

import (
	"fmt"
	"os"
	"unsafe"
)

// XRCD is an XRC domain: processes that open it by the same file share the
// receiving ends of extended reliable connections.
type XRCD struct {
	object
	dev  *Device
	xrcd *C.struct_ibv_xrcd
}

// OpenXRCD opens an XRC domain. A nil file makes one of this process alone;
// otherwise the file's inode names the domain, and the flags O_CREAT and
// O_EXCL mean what they mean for files.
func (d *Device) OpenXRCD(file *os.File, flags int) (*XRCD, error) {
	x := &XRCD{dev: d}
	if err := x.attach("ibv_open_xrcd", "xrcd", &d.object); err != nil {
		return nil, err
	}
	fd := -1
	if file != nil {
		fd = int(file.Fd())
	} else {
		flags |= os.O_CREATE
	}
	p, errno := C.vb_open_xrcd(d.ctx, C.int(fd), C.int(flags))
	if p == nil {
		x.detach()
		return nil, failed("ibv_open_xrcd", d.info.Name, errno, "the device must have XRC: see Caps of Device.Attr")
	}
	x.xrcd = p
	x.rename("%p", p)
	return x, nil
}

// CreateReceiver makes the receiving end of an extended reliable connection,
// an XRC_RECV queue pair, in the INIT state. It has no queues: the sender
// names a shared receive queue of the domain with each request (WR.ToSRQ).
func (x *XRCD) CreateReceiver(o QPOptions) (*RC, error) {
	o.Type, o.XRCD = TypeXRCRecv, x
	q := &QP{dev: x.dev, psn: randomPSN()}
	if err := q.create(&x.object, o); err != nil {
		return nil, err
	}
	if err := q.Init(0); err != nil {
		q.Close()
		return nil, err
	}
	return &RC{q}, nil
}

// OpenQP opens a receiving end that another process of the domain made, so
// that it lives until both have closed it.
func (x *XRCD) OpenQP(qpn uint32) (*QP, error) {
	q := &QP{dev: x.dev, qpn: qpn, opts: QPOptions{Type: TypeXRCRecv, Port: 1, XRCD: x}}
	if err := q.attach("ibv_open_qp", "qp "+TypeXRCRecv.String(), &x.object); err != nil {
		return nil, err
	}
	p, errno := C.vb_open_qp(x.dev.ctx, x.xrcd, C.uint32_t(qpn), C.int(TypeXRCRecv))
	if p == nil {
		q.detach()
		return nil, failed("ibv_open_qp", fmt.Sprintf("%s qp %d", x.describe(), qpn), errno, "no such receiver in the domain")
	}
	q.qp = p
	q.rename("%v %d", TypeXRCRecv, qpn)
	return q, nil
}

// CreateXRCSender makes the sending end of an extended reliable connection, an
// XRC_SEND queue pair, in the INIT state.
func (pd *PD) CreateXRCSender(o QPOptions) (*RC, error) {
	q, err := pd.createInit(o, TypeXRCSend)
	if err != nil {
		return nil, err
	}
	return &RC{q}, nil
}

// Handle is the struct ibv_xrcd, nil once the domain is closed.
func (x *XRCD) Handle() unsafe.Pointer { return unsafe.Pointer(x.xrcd) }

func (x *XRCD) describe() string { return x.dev.info.Name + " " + x.name() }

// Close closes the domain. It is ErrBusy while objects of this process stand
// on it.
func (x *XRCD) Close() error {
	return x.close("ibv_close_xrcd", func() error {
		if err := code("ibv_close_xrcd", x.describe(), int(C.vb_close_xrcd(x.xrcd)), ""); err != nil {
			return err
		}
		x.xrcd = nil
		return nil
	})
}
