package verbs

/*
#include "shim.h"

static int vb_query_pkey(struct ibv_context *c, uint8_t port, int index, uint16_t *pkey)
{
	errno = 0;
	return vb_rc(vb.ibv_query_pkey(c, port, index, (__be16 *)pkey));
}
*/
import "C"

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"unsafe"
)

import "C"

// PKeys lists a port's partition key table, by index.
func (d *Device) PKeys(port int) ([]uint16, error) {
	attr, err := d.Port(port)
	if err != nil {
		return nil, err
	}
	out := make([]uint16, attr.PKeyTableLen)
	for i := range out {
		if out[i], err = d.PKeyAt(port, i); err != nil {
			return out[:i], err
		}
	}
	return out, nil
}

// PKeyIndex finds a partition key in a port's table.
func (d *Device) PKeyIndex(port int, pkey uint16) (int, error) {
	keys, err := d.PKeys(port)
	if err != nil {
		return 0, err
	}
	for i, k := range keys {
		if k == pkey {
			return i, nil
		}
	}
	return 0, &Error{Verb: "ibv_get_pkey_index", Object: fmt.Sprintf("%s port %d P_Key %#04x", d.info.Name, port, pkey),
		Err: syscall.ENOENT, Detail: fmt.Sprintf("the table holds %#04x", keys)}
}

// PKeyAt reads one entry of a port's partition key table.
func (d *Device) PKeyAt(port, index int) (uint16, error) {
	object := fmt.Sprintf("%s port %d P_Key index %d", d.info.Name, port, index)
	if d.ctx == nil {
		return 0, &Error{Verb: "ibv_query_pkey", Object: object, Err: ErrClosed}
	}
	var raw [2]byte
	rc := C.vb_query_pkey(d.ctx, C.uint8_t(port), C.int(index), (*C.uint16_t)(unsafe.Pointer(&raw)))
	return binary.BigEndian.Uint16(raw[:]), code("ibv_query_pkey", object, int(rc), "")
}
