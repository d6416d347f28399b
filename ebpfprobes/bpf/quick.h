/* The slots of common.h, without a call and with few branches: for what is counted at
 * every call. */
#ifndef PEERDIRECT_QUICK_H
#define PEERDIRECT_QUICK_H

#include "common.h"

/* The number of a byte's highest bit; 0 of 0. */
static const u8 bit_of_byte[256] = {
	[2 ... 3] = 1, [4 ... 7] = 2, [8 ... 15] = 3, [16 ... 31] = 4,
	[32 ... 63] = 5, [64 ... 127] = 6, [128 ... 255] = 7,
};

/* The number of the highest bit; 0 of 0. */
static __always_inline u32 quick_bit_of(u64 v)
{
	u32 n = 0;

	if (v > 0xffffffff) {
		v >>= 32;
		n = 32;
	}
	if (v > 0xffff) {
		v >>= 16;
		n += 16;
	}
	if (v > 0xff) {
		v >>= 8;
		n += 8;
	}
	return n + bit_of_byte[v & 0xff];
}

/* Of less than 2^SLOT_BITS the slots are one wide. */
static __always_inline u32 quick_slot_of(u64 v)
{
	if (v < 1 << SLOT_BITS)
		return v;
	u32 above = quick_bit_of(v) - SLOT_BITS;
	u32 slot = (above << SLOT_BITS) + (u32)(v >> above);

	return slot < SLOTS ? slot : SLOTS - 1;
}

#endif
