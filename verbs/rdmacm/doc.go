// Package rdmacm connects queue pairs through the kernel's RDMA connection
// manager. It speaks the manager's own interface, /dev/infiniband/rdma_cm, and
// needs neither cgo nor librdmacm: the kernel wants a queue pair's number and
// nothing else, so the queue pairs may come from wherever the caller makes them.
//
// An iWARP queue pair can be connected in no other way. InfiniBand and RoCE
// ones can; there the kernel names the attributes, and Params.Modify moves the
// queue pair with them.
//
//	l, err := rdmacm.Listen(ctx, netip.MustParseAddrPort("192.0.2.1:0"))
//	req, err := l.Accept(ctx)
//	conn, err := req.Accept(ctx, rdmacm.Params{QPN: qp.QPN()})
//
//	conn, err := rdmacm.Dial(ctx, local, l.Addr(), rdmacm.Params{QPN: qp.QPN()})
//
// # Lifetimes
//
// A Conn stands for the connection: keep it for as long as the queue pair is
// used, and close it after the queue pair. Closing it first moves an iWARP
// queue pair to the error state. Listeners and connections made by one Channel
// share its descriptor and one goroutine, which the last of them to be closed
// takes along.
//
// # Waiting
//
// Every wait takes a context and none of them holds a thread, except that an
// iWARP driver opens its TCP connection inside the command. A Dial whose context
// ends meanwhile returns at once; the kernel finishes the attempt on its own
// time (siw gives up after 5 s, or when TCP does) and only then is the id gone.
//
// # Sources
//
// Layouts and numbers are from include/uapi/rdma/rdma_user_cm.h (ABI 4) and
// ib_user_verbs.h, behaviour from drivers/infiniband/core/ucma.c, cma.c, iwcm.c
// and drivers/infiniband/sw/siw/siw_cm.c of Linux 7.3.4.
//
// # What it needs
//
// Linux, the module rdma_ucm, and its node open for reading and writing; no cgo. An
// *Error has the operation, the address, an errno or class, and cause and remedy.
package rdmacm

import _ "github.com/peerdirect/peerdirect/internal/needs/linux"
