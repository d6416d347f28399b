/* Calls that began before programs were detached may have lost their ends: Go raises
 * this number, and what began with another is not followed on. */
#ifndef PEERDIRECT_GENERATION_H
#define PEERDIRECT_GENERATION_H

#include "kernel.h"

u32 generation = 0;

#endif
