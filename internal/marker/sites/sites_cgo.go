//go:build !nomarks

package sites

/*
#include <stdint.h>

extern uint32_t peerdirect_semaphore;
void peerdirect_post(void *);
void peerdirect_complete(void *);
*/
import "C"

import "unsafe"

// Semaphore is not 0 while a tracer is attached.
var Semaphore = (*uint32)(unsafe.Pointer(&C.peerdirect_semaphore))

// Post and Complete are the sites: functions of C that take a pointer to a Mark and do
// nothing.
var (
	Post     = unsafe.Pointer(C.peerdirect_post)
	Complete = unsafe.Pointer(C.peerdirect_complete)
)

// Built tells whether there are sites.
const Built = true
