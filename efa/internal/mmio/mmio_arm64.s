#include "textflag.h"

// Barrier options: 0xe is ST (full system, stores), 0x2 OSHST, 0x1 OSHLD.

// func Post(dst, src unsafe.Pointer, blocks int, doorbell unsafe.Pointer, value uint32)
TEXT ·Post(SB), NOSPLIT, $0-36
	MOVD	dst+0(FP), R0
	MOVD	src+8(FP), R1
	MOVD	blocks+16(FP), R2
	DSB	$0xe
	CMP	$0, R2
	BLE	flush
block:
	LDP	0(R1), (R3, R4)
	LDP	16(R1), (R5, R6)
	LDP	32(R1), (R7, R8)
	LDP	48(R1), (R9, R10)
	STP	(R3, R4), 0(R0)
	STP	(R5, R6), 16(R0)
	STP	(R7, R8), 32(R0)
	STP	(R9, R10), 48(R0)
	ADD	$64, R1
	ADD	$64, R0
	SUBS	$1, R2
	BNE	block
flush:
	DSB	$0xe
	MOVD	doorbell+24(FP), R3
	CBZ	R3, done
	MOVWU	value+32(FP), R4
	MOVW	R4, (R3)
done:
	RET

// func Copy(dst, src unsafe.Pointer, blocks int)
TEXT ·Copy(SB), NOSPLIT, $0-24
	MOVD	dst+0(FP), R0
	MOVD	src+8(FP), R1
	MOVD	blocks+16(FP), R2
	DSB	$0xe
	CMP	$0, R2
	BLE	done
block:
	LDP	0(R1), (R3, R4)
	LDP	16(R1), (R5, R6)
	LDP	32(R1), (R7, R8)
	LDP	48(R1), (R9, R10)
	STP	(R3, R4), 0(R0)
	STP	(R5, R6), 16(R0)
	STP	(R7, R8), 32(R0)
	STP	(R9, R10), 48(R0)
	ADD	$64, R1
	ADD	$64, R0
	SUBS	$1, R2
	BNE	block
done:
	RET

// func Ring(doorbell unsafe.Pointer, value uint32)
TEXT ·Ring(SB), NOSPLIT, $0-12
	MOVD	doorbell+0(FP), R0
	MOVWU	value+8(FP), R1
	DMB	$0x2
	MOVW	R1, (R0)
	RET

// func LoadFence()
TEXT ·LoadFence(SB), NOSPLIT, $0-0
	DMB	$0x1
	RET
