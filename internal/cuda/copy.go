package cuda

/*
#include "shim.h"
*/
import "C"

import (
	"errors"
	"unsafe"
)

// CanAccess tells whether the device can map memory of a peer, so that copies
// between them need not go through the host.
func (d Device) CanAccess(peer Device) (bool, error) {
	var can C.int
	err := check("cuDeviceCanAccessPeer", C.cu_can_access(C.int(d), C.int(peer), &can))
	return can != 0, err
}

// PeerAttribute is a number of CUdevice_P2PAttribute.
type PeerAttribute int

const (
	PeerRank    PeerAttribute = 1 // PERFORMANCE_RANK: 0 is the fastest kind of link of the machine
	PeerAtomics PeerAttribute = 3 // NATIVE_ATOMIC_SUPPORTED: every atomic operation goes over the link
)

// PeerAttribute reads what the driver says of the link to a peer.
func (d Device) PeerAttribute(a PeerAttribute, peer Device) (int, error) {
	var v C.int
	err := check("cuDeviceGetP2PAttribute", C.cu_peer_attribute(C.int(d), C.int(peer), C.int(a), &v))
	return int(v), err
}

// EnablePeer lets the context reach all memory of a peer's context, now and to
// come. It is one direction; that it was so before is no error.
func (c Context) EnablePeer(peer Context) error {
	err := check("cuCtxEnablePeerAccess", C.cu_peer_enable(C.cu_opaque(c), C.cu_opaque(peer)))
	if errors.Is(err, PeerAccessEnabled) {
		return nil
	}
	return err
}

// DisablePeer takes EnablePeer back.
func (c Context) DisablePeer(peer Context) error {
	return check("cuCtxDisablePeerAccess", C.cu_peer_disable(C.cu_opaque(c), C.cu_opaque(peer)))
}

// Stream is a queue of a context's, whose work is done in order. The zero Stream
// is none.
type Stream struct {
	ctx    Context
	handle C.cu_opaque
}

// NewStream makes a stream that does not wait for stream 0.
func (c Context) NewStream() (Stream, error) {
	s := Stream{ctx: c}
	err := check("cuStreamCreate", C.cu_stream_create(C.cu_opaque(c), &s.handle))
	return s, err
}

// Destroy ends the stream, once what is in it is done; the call does not wait.
func (s Stream) Destroy() error {
	return check("cuStreamDestroy", C.cu_stream_destroy(C.cu_opaque(s.ctx), s.handle))
}

// Done asks whether all of the stream's work is done, up to so many times in one
// call into C, and comes back at the first yes. An error is one of the work's:
// the context can no longer be used.
func (s Stream) Done(times int) (bool, error) {
	var done C.int
	err := check("cuStreamQuery", C.cu_stream_query(C.cu_opaque(s.ctx), s.handle, C.int(times), &done))
	return done != 0, err
}

// Wait lets what comes next in the stream wait for an event, of whichever
// context. Of one never recorded there is nothing to wait for.
func (s Stream) Wait(e Event) error {
	return check("cuStreamWaitEvent", C.cu_stream_wait(C.cu_opaque(s.ctx), s.handle, e.handle))
}

// Event marks a point in a stream.
type Event struct {
	ctx    Context
	handle C.cu_opaque
}

// NewEvent makes an event without a time of its own, for streams of the context.
func (c Context) NewEvent() (Event, error) {
	e := Event{ctx: c}
	err := check("cuEventCreate", C.cu_event_create(C.cu_opaque(c), &e.handle))
	return e, err
}

// Destroy ends the event; who waits for it still gets it.
func (e Event) Destroy() error {
	return check("cuEventDestroy", C.cu_event_destroy(C.cu_opaque(e.ctx), e.handle))
}

// Record marks the stream as it is now. Waits of before keep the mark of before.
func (e Event) Record(s Stream) error {
	return check("cuEventRecord", C.cu_event_record(C.cu_opaque(e.ctx), e.handle, s.handle))
}

// Fill sets size bytes of the device's from p on, in the stream's order.
func (s Stream) Fill(p uint64, v byte, size uint64) error {
	return check("cuMemsetD8Async", C.cu_fill(C.cu_opaque(s.ctx), C.cu_address(p), C.uchar(v), C.size_t(size), s.handle))
}

// CopyPeer copies size bytes between two contexts' devices, in the order of the
// stream, which is of either. Without peer access the driver takes a way through
// the host.
func (s Stream) CopyPeer(to uint64, toCtx Context, from uint64, fromCtx Context, size uint64) error {
	return check("cuMemcpyPeerAsync", C.cu_to_peer(C.cu_opaque(s.ctx),
		C.cu_address(to), C.cu_opaque(toCtx), C.cu_address(from), C.cu_opaque(fromCtx), C.size_t(size), s.handle))
}

// CopyToHost copies device memory into b in the stream's order. b must be pinned,
// and none of Go's: the call is back before the bytes are there.
func (s Stream) CopyToHost(b []byte, from uint64) error {
	if len(b) == 0 {
		return nil
	}
	return check("cuMemcpyDtoHAsync", C.cu_to_host_async(C.cu_opaque(s.ctx), unsafe.Pointer(&b[0]), C.cu_address(from), C.size_t(len(b)), s.handle))
}

// CopyToDevice copies b, which is as CopyToHost has it, to device memory.
func (s Stream) CopyToDevice(to uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return check("cuMemcpyHtoDAsync", C.cu_to_device_async(C.cu_opaque(s.ctx), C.cu_address(to), unsafe.Pointer(&b[0]), C.size_t(len(b)), s.handle))
}

// AllocPinned gives page-locked memory of the host, for all contexts. It is not
// Go's: after FreePinned nobody may touch it.
func (c Context) AllocPinned(size int) ([]byte, error) {
	var p unsafe.Pointer
	if err := check("cuMemHostAlloc", C.cu_pinned(C.cu_opaque(c), C.size_t(size), &p)); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), size), nil
}

// FreePinned frees what AllocPinned gave.
func (c Context) FreePinned(b []byte) error {
	return check("cuMemFreeHost", C.cu_unpinned(C.cu_opaque(c), unsafe.Pointer(unsafe.SliceData(b))))
}

// Pin locks pages of the host that are there already, and none of Go's, for all
// contexts.
func (c Context) Pin(b []byte) error {
	return check("cuMemHostRegister", C.cu_pin(C.cu_opaque(c), unsafe.Pointer(unsafe.SliceData(b)), C.size_t(len(b))))
}

// Unpin takes Pin back.
func (c Context) Unpin(b []byte) error {
	return check("cuMemHostUnregister", C.cu_unpin(C.cu_opaque(c), unsafe.Pointer(unsafe.SliceData(b))))
}
