// Package wire has the formats of the Elastic Fabric Adapter (EFA): what lies in
// its registers, in its admin, event and notification queues, and in its send,
// receive and completion queues.
//
// Names and numbers come from Linux 7.3 (drivers/infiniband/hw/efa: its files
// efa_regs_defs.h, efa_admin_defs.h, efa_admin_cmds_defs.h, efa_io_defs.h and
// efa_common_defs.h) and, where the kernel has no need of them, from rdma-core 65
// (providers/efa: efa_io_defs.h, efa_io_regs_defs.h). A comment "struct X" names
// the C struct that a type stands for.
//
// # Conventions
//
// Everything is little-endian, except GIDs, which are in network byte order.
// A type X with a constant SizeX has two methods:
//
//	Encode(b []byte)  writes exactly SizeX bytes; reserved fields become zero
//	Decode(b []byte)  reads exactly SizeX bytes; reserved fields are ignored
//
// Both want at least SizeX bytes and panic when there are fewer, as
// encoding/binary does: who owns a ring knows its size. Neither allocates.
// Fields that hold bits of their own (types ending in Flags, Caps, Mask, Access,
// Events) keep bits that have no name yet, so a device can refuse them.
//
// Admin commands and responses begin at their payload: a command's at
// [PayloadAQ] or [PayloadAQV2], a response's at [PayloadACQ]. The same type thus
// serves both layouts of the admin queue. A command or response that has no type
// here (ALLOC_PD's command, DESTROY_QP's response) has no payload.
//
// For the data path, [TxEntry], [RxEntry] and [CQE] are the bytes themselves, with
// accessors that inline and move whole words. The structs [TxMeta], [RxDesc],
// [TxCQE] and [RxCQE] are the same formats for where a readable value matters
// more.
package wire

import "encoding/binary"

var le = binary.LittleEndian
