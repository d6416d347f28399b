package verbs

import "unsafe"

// The structures below are read and written in place, in memory that C sees,
// so that a batch costs one crossing and a poll none besides its own. Their
// offsets are pinned against the build's header in shim.c, and against Go's
// compiler here.

// sge is struct ibv_sge.
type sge struct {
	addr   uint64
	length uint32
	lkey   uint32
}

// sendWR is struct ibv_send_wr. Its unions are spread out: u0 to u3 are
// rdma {remote_addr, rkey}, atomic {remote_addr, compare_add, swap, rkey} or
// ud {ah, remote_qpn and remote_qkey}.
type sendWR struct {
	id     uint64
	next   *sendWR
	sges   *sge
	numSGE int32
	opcode uint32
	flags  uint32
	imm    uint32 // big-endian immediate, or the rkey to invalidate
	u0     uint64
	u1     uint64
	u2     uint64
	u3     uint64
	srqn   uint32
	_      uint32
	mw     unsafe.Pointer
	mwRKey uint32
	_      uint32
	mr     unsafe.Pointer
	mwAddr uint64
	mwLen  uint64
	mwAcc  uint32
	_      uint32
}

// recvWR is struct ibv_recv_wr.
type recvWR struct {
	id     uint64
	next   *recvWR
	sges   *sge
	numSGE int32
	_      uint32
}

var (
	_ [128]byte = [unsafe.Sizeof(sendWR{})]byte{}
	_ [40]byte  = [unsafe.Offsetof(sendWR{}.u0)]byte{}
	_ [72]byte  = [unsafe.Offsetof(sendWR{}.srqn)]byte{}
	_ [80]byte  = [unsafe.Offsetof(sendWR{}.mw)]byte{}
	_ [96]byte  = [unsafe.Offsetof(sendWR{}.mr)]byte{}
	_ [120]byte = [unsafe.Offsetof(sendWR{}.mwAcc)]byte{}
	_ [32]byte  = [unsafe.Sizeof(recvWR{})]byte{}
	_ [16]byte  = [unsafe.Sizeof(sge{})]byte{}
	_ [48]byte  = [unsafe.Sizeof(Completion{})]byte{}
	_ [24]byte  = [unsafe.Offsetof(Completion{}.imm)]byte{}
	_ [45]byte  = [unsafe.Offsetof(Completion{}.DLIDPathBits)]byte{}
)
