package lab

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// Host and guest talk over one virtio-serial port in frames: a kind, the
// payload's length in 4 bytes, big endian, the payload. One port rather than
// one a stream keeps the order: whatever a command printed arrives before its
// exit status.
//
//	guest               host
//	hello       ->
//	            <-      setup
//	ready       ->                     on every node, before any goes on
//	            <-      start
//	stdout, stderr ->
//	            <-      stdin, resize
//	exit        ->
//
// A guest that cannot do what setup says sends failed and powers off.
type frameKind byte

const (
	frameHello  frameKind = 'h' // empty: the agent runs
	frameSetup  frameKind = 's' // JSON guestSetup
	frameReady  frameKind = 'r' // empty: the link is up, the RDMA devices active
	frameFailed frameKind = 'f' // text: why not
	frameStart  frameKind = 'g' // empty: run the command
	frameStdin  frameKind = '0' // bytes; none: end of file
	frameStdout frameKind = '1' // bytes
	frameStderr frameKind = '2' // bytes
	frameResize frameKind = 'w' // JSON windowSize
	frameExit   frameKind = 'x' // JSON guestExit
)

// maxPayload bounds a frame. A guest may send anything: more is an error, not
// an allocation.
const maxPayload = 1 << 20

// guestSetup is what a guest needs to know.
type guestSetup struct {
	Node         int         `json:"node"`
	Addrs        []string    `json:"addrs"` // of every node, in their order
	Prefix       int         `json:"prefix"`
	MTU          int         `json:"mtu"`          // bytes
	Link         Link        `json:"link"`         // rxe, siw or none
	EFA          int         `json:"efa"`          // devices to wait for
	Accelerators int         `json:"accelerators"` // likewise
	Modules      []string    `json:"modules,omitempty"`
	Out          bool        `json:"out"` // /peerdirect/out is shared
	Kernel       string      `json:"kernel"`
	Command      []string    `json:"command"`
	Env          []string    `json:"env,omitempty"`
	Term         string      `json:"term,omitempty"`
	Window       *windowSize `json:"window,omitempty"` // set: the command gets a terminal

	efaNames, acceleratorNames []string // what the guest found
}

type windowSize struct {
	Rows, Cols uint16
}

// guestExit is how a command ended, the shell's way: 128 and the signal for one
// that a signal ended, 126 and 127 for one that did not start.
type guestExit struct {
	Status int `json:"status"`
}

// frameConn reads frames, from one goroutine, and writes them, from any.
type frameConn struct {
	r io.Reader
	w io.Writer

	mu sync.Mutex // one frame at a time
}

// read gives the next frame; its payload is the caller's. It gives io.EOF at
// the end between frames, and io.ErrUnexpectedEOF within one.
func (c *frameConn) read() (frameKind, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxPayload {
		return 0, nil, fmt.Errorf("a frame of kind %q claims %d bytes, more than %d: the control port is out of step", head[0], n, maxPayload)
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(c.r, payload); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return frameKind(head[0]), payload, nil
}

func (c *frameConn) write(kind frameKind, payload []byte) error {
	if len(payload) > maxPayload {
		return fmt.Errorf("a frame of kind %q of %d bytes exceeds %d", kind, len(payload), maxPayload)
	}
	b := make([]byte, 5, 5+len(payload))
	b[0] = byte(kind)
	binary.BigEndian.PutUint32(b[1:], uint32(len(payload)))
	b = append(b, payload...)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.w.Write(b)
	return err
}

func (c *frameConn) writeJSON(kind frameKind, v any) error {
	payload, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.write(kind, payload)
}

// frameWriter is a stream of frames of one kind.
type frameWriter struct {
	c    *frameConn
	kind frameKind
}

func (w frameWriter) Write(p []byte) (int, error) {
	for n := 0; n < len(p); {
		m := min(len(p)-n, maxPayload)
		if err := w.c.write(w.kind, p[n:n+m]); err != nil {
			return n, err
		}
		n += m
	}
	return len(p), nil
}
