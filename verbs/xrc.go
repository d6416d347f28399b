package verbs

/*
#include "shim.h"
*/
import "C"

// XRCD is an XRC domain.
type XRCD struct {
	object
	dev  *Device
	xrcd *C.struct_ibv_xrcd
}
