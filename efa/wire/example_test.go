package wire_test

import (
	"fmt"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// What a driver writes for an RDMA WRITE of 4096 bytes, and what the device makes of
// it: the entry is the bytes themselves.
func ExampleTxEntry() {
	var entry wire.TxEntry
	entry.Set(7, wire.TxAlways|wire.TxControl(wire.IORDMAWrite), 3, 1)
	entry.SetRemote(0x7f00_0000_0000, 4096, 0x1234)
	entry.SetLocal(0x7e00_0000_0000, 4096, 0x56)
	fmt.Println(entry.Op(), "to queue pair", entry.DestQP(), "as request", entry.ReqID())
	// Output: RDMA_WRITE to queue pair 3 as request 7
}

// A completion as a device writes it and as a driver polls for it: the phase bit of
// the first word flips at each wrap of the ring, so an old entry is known for one.
func ExampleCQE() {
	var entry wire.CQE
	entry.SetSend(3, 0)
	entry.SetWord(wire.MakeCQEWord(7, wire.CompOK, wire.MakeCQEFlags(true, wire.SendQueue, wire.IORDMAWrite, false, false)))
	if entry.Phase() { // of the first pass
		fmt.Println(entry.QP(), entry.ReqID(), entry.Status(), entry.Flags().Op())
	}
	// Output: 3 7 success RDMA_WRITE
}

// Admin commands have types with Encode and Decode, and a constant for their size.
func ExampleCreateAH() {
	var b [wire.SizeCreateAH]byte
	command := wire.CreateAH{PD: 5, DestAddr: wire.GID{0: 0xfe, 1: 0x80, 15: 1}}
	command.Encode(b[:])
	var read wire.CreateAH
	read.Decode(b[:])
	fmt.Println(len(b), read == command, read.PD)
	// Output: 20 true 5
}
