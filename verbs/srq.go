package verbs

/*
#include "shim.h"
*/
import "C"

// SRQ is a shared receive queue.
type SRQ struct {
	object
	dev *Device
	srq *C.struct_ibv_srq
}

func (s *SRQ) describe() string { return s.dev.info.Name + " " + s.name() }
