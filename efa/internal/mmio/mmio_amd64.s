#include "textflag.h"

// R14 and R15 are left alone: the runtime keeps its own there.

// func Post(dst, src unsafe.Pointer, blocks int, doorbell unsafe.Pointer, value uint32)
TEXT ·Post(SB), NOSPLIT, $0-36
	MOVQ	dst+0(FP), DI
	MOVQ	src+8(FP), SI
	MOVQ	blocks+16(FP), CX
	SFENCE
	TESTQ	CX, CX
	JLE	flush
block:
	MOVQ	0(SI), AX
	MOVQ	8(SI), BX
	MOVQ	16(SI), DX
	MOVQ	24(SI), R8
	MOVQ	32(SI), R9
	MOVQ	40(SI), R10
	MOVQ	48(SI), R11
	MOVQ	56(SI), R12
	MOVQ	AX, 0(DI)
	MOVQ	BX, 8(DI)
	MOVQ	DX, 16(DI)
	MOVQ	R8, 24(DI)
	MOVQ	R9, 32(DI)
	MOVQ	R10, 40(DI)
	MOVQ	R11, 48(DI)
	MOVQ	R12, 56(DI)
	ADDQ	$64, SI
	ADDQ	$64, DI
	DECQ	CX
	JNZ	block
flush:
	SFENCE
	MOVQ	doorbell+24(FP), DX
	TESTQ	DX, DX
	JEQ	done
	MOVL	value+32(FP), AX
	MOVL	AX, (DX)
done:
	RET

// func Copy(dst, src unsafe.Pointer, blocks int)
TEXT ·Copy(SB), NOSPLIT, $0-24
	MOVQ	dst+0(FP), DI
	MOVQ	src+8(FP), SI
	MOVQ	blocks+16(FP), CX
	SFENCE
	TESTQ	CX, CX
	JLE	done
block:
	MOVQ	0(SI), AX
	MOVQ	8(SI), BX
	MOVQ	16(SI), DX
	MOVQ	24(SI), R8
	MOVQ	32(SI), R9
	MOVQ	40(SI), R10
	MOVQ	48(SI), R11
	MOVQ	56(SI), R12
	MOVQ	AX, 0(DI)
	MOVQ	BX, 8(DI)
	MOVQ	DX, 16(DI)
	MOVQ	R8, 24(DI)
	MOVQ	R9, 32(DI)
	MOVQ	R10, 40(DI)
	MOVQ	R11, 48(DI)
	MOVQ	R12, 56(DI)
	ADDQ	$64, SI
	ADDQ	$64, DI
	DECQ	CX
	JNZ	block
done:
	RET

// func Ring(doorbell unsafe.Pointer, value uint32)
//
// Stores to ordinary memory are seen in order; the store to the uncached
// doorbell comes after them without a fence.
TEXT ·Ring(SB), NOSPLIT, $0-12
	MOVQ	doorbell+0(FP), DX
	MOVL	value+8(FP), AX
	MOVL	AX, (DX)
	RET
