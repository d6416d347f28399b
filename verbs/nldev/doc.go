// Package nldev reads what the kernel knows of its RDMA devices: the devices
// and their ports, every queue pair, completion queue, memory region and the
// like with the process that owns it, counters, and the notifications of
// change. It is what the rdma tool of iproute2 shows, as Go values.
//
//	c, err := nldev.Open()
//	if err != nil { … }
//	defer c.Close()
//	devices, err := c.Devices(ctx)
//	qps, err := c.QPs(ctx, nldev.Filter{Device: "rxe0"})
//
// The package speaks RDMA_NL_NLDEV over a NETLINK_RDMA socket and needs neither
// cgo nor rdma-core. Reading needs no privilege, except for what the kernel
// holds back without CAP_NET_ADMIN (the keys of memory regions and protection
// domains); changing anything needs CAP_NET_ADMIN.
//
// # What a list is worth
//
// The kernel does not freeze its tables while it dumps them, and continues a
// long dump by position: an object that comes or goes meanwhile can make a
// neighbour appear twice or not at all. Lists are right for what did not
// change while they were read.
//
// # Namespaces
//
// A socket sees the devices of the network namespace that the thread was in
// that opened it, and process ids of the reader's process-id namespace.
//
// # Sources
//
// Numbers are from include/uapi/rdma/rdma_netlink.h, behaviour from
// drivers/infiniband/core/nldev.c and netlink.c, both of Linux 7.3.4.
//
// # Use
//
// A Client and a Monitor may be used by several goroutines; Close ends what is under
// way with ErrClosed. Nothing else has to be closed. Sizes are bytes. It needs Linux,
// no cgo and no device; without ib_core Open is ErrNoDevice.
package nldev

import _ "github.com/peerdirect/peerdirect/internal/needs/linux"
