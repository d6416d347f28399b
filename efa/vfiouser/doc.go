// Package vfiouser serves an emulated PCI device to a virtual machine over the
// vfio-user protocol: the device's code runs in this process, the guest in
// another, and the two share the guest's memory. It knows no particular device.
//
// The protocol is QEMU's docs/interop/vfio-user.rst; structures and numbers
// that it takes from VFIO are those of linux/vfio.h. QEMU 10.1 and later bring a
// client, the device vfio-user-pci. Messages are little-endian, which is the
// protocol's "host order" on every machine that this package builds for.
//
// A [Server] is one device's way to its client. It exists before the device
// does, so that the device can be built on the server's [Memory] and interrupts:
//
//	srv := vfiouser.NewServer(vfiouser.Options{})
//	dev := newDevice(srv.Memory(), srv.Interrupt)
//	l, err := vfiouser.Listen("/run/dev.sock")
//	err = srv.Serve(ctx, l, dev)
//
// What is left out: migration, dirty page tracking, interrupts other than
// edge-triggered eventfds, I/O descriptors (ioeventfd), and the commands from
// server to client (DMA_READ, DMA_WRITE): memory that the client does not share
// by descriptor is out of the device's reach.
//
// The client is trusted as far as a program that owns the guest must be: it can
// always end its guest, and memory that it shrinks after sharing ends this
// process by SIGBUS. Nothing that the guest itself can do reaches further than
// its own device.
package vfiouser

import _ "github.com/peerdirect/peerdirect/internal/needs/linux"
