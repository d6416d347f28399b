package verbs

/*
#include "shim.h"

static int vb_attach(struct ibv_qp *qp, union ibv_gid *gid, uint16_t lid)
{
	errno = 0;
	return vb_rc(vb.ibv_attach_mcast(qp, gid, lid));
}

static int vb_detach(struct ibv_qp *qp, union ibv_gid *gid, uint16_t lid)
{
	errno = 0;
	return vb_rc(vb.ibv_detach_mcast(qp, gid, lid));
}
*/
import "C"

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"
)

// JoinMulticast has the queue pair receive what is sent to a multicast group.
// On InfiniBand the subnet manager must know of it as well (verbs/rdmacm).
func (q *UD) JoinMulticast(group GID, lid uint16) error {
	return q.multicast("ibv_attach_mcast", group, lid, func(g *C.union_ibv_gid) C.int {
		return C.vb_attach(q.qp, g, C.uint16_t(lid))
	})
}

// LeaveMulticast ends it. A queue pair must leave its groups before it is
// closed.
func (q *UD) LeaveMulticast(group GID, lid uint16) error {
	return q.multicast("ibv_detach_mcast", group, lid, func(g *C.union_ibv_gid) C.int {
		return C.vb_detach(q.qp, g, C.uint16_t(lid))
	})
}

func (q *QP) multicast(verb string, group GID, lid uint16, call func(*C.union_ibv_gid) C.int) error {
	q.life.Lock()
	defer q.life.Unlock()
	object := fmt.Sprintf("%s group %v", q.describe(), group)
	if q.qp == nil {
		return &Error{Verb: verb, Object: object, Err: ErrClosed}
	}
	var g C.union_ibv_gid
	*(*GID)(unsafe.Pointer(&g)) = group
	rc := call(&g)
	if rc == 0 {
		return nil
	}
	err := syscall.Errno(rc)
	detail := ""
	switch {
	case !group.IsMulticast():
		detail = "a multicast GID begins with ff"
	case errors.Is(err, syscall.EINVAL):
		detail = "the queue pair is no member, or the device has no multicast"
	}
	return failed(verb, object, err, detail)
}

// IsMulticast tells a group's GID. Groups of RoCE v2 over IPv4 are mapped
// IPv4 multicast addresses.
func (g GID) IsMulticast() bool { return g[0] == 0xff || g.Addr().IsMulticast() }
