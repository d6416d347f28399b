package vfiouser

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// session is one client's connection: it reads a message, answers it, and only
// then reads the next, which keeps the order that the protocol asks for.
type session struct {
	server     *Server
	conn       *net.UnixConn
	device     Device
	negotiated bool

	head [headerSize]byte
	oob  []byte
	body []byte
	out  []byte
	fds  []int // of the message at hand; what a handler does not take is closed
}

func newSession(s *Server, conn *net.UnixConn, d Device) *session {
	return &session{
		server: s,
		conn:   conn,
		device: d,
		// Room for the most descriptors that the kernel passes at once
		// (SCM_MAX_FD), so that none is dropped unseen.
		oob: make([]byte, unix.CmsgSpace(253*4)),
		out: make([]byte, headerSize, 4096),
	}
}

// run serves until the client goes.
func (c *session) run() error {
	for {
		var h header
		err := c.receive(&h)
		if err == nil {
			err = c.answer(&h)
		}
		c.closeFDs()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
			return nil // the client has gone, or was killed
		case err != nil:
			return err
		}
	}
}

// receive reads one message. Descriptors come with the first byte of the message
// that they belong to, and a read that went beyond the header could bring those
// of the next one along: so exactly 16 bytes are read first.
func (c *session) receive(h *header) error {
	n, oobn, _, _, err := c.conn.ReadMsgUnix(c.head[:], c.oob)
	if err != nil {
		return err
	}
	if err := c.takeRights(c.oob[:oobn]); err != nil {
		return err
	}
	if n < headerSize {
		if _, err := io.ReadFull(c.conn, c.head[n:]); err != nil {
			return c.truncated(0, err)
		}
	}
	h.decode(c.head[:])
	switch {
	case h.size < headerSize:
		return &ProtocolError{h.command, fmt.Sprintf("%d bytes are less than a header", h.size)}
	case h.size > maxMessage:
		return &ProtocolError{h.command, fmt.Sprintf("%d bytes are more than the %d that a message has at most", h.size, maxMessage)}
	case h.flags&flagType != 0:
		return &ProtocolError{h.command, "a reply to a question that was not asked"}
	}
	n = int(h.size) - headerSize
	if cap(c.body) < n {
		c.body = make([]byte, n)
	}
	c.body = c.body[:n]
	if _, err := io.ReadFull(c.conn, c.body); err != nil {
		return c.truncated(h.command, err)
	}
	return nil
}

// truncated names a stream that ended inside a message.
func (c *session) truncated(command Command, err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return &ProtocolError{command, "the client went in the middle of it"}
	}
	return err
}

// takeRights collects the descriptors of a control message. They arrive
// close-on-exec, which net asks for.
func (c *session) takeRights(oob []byte) error {
	if len(oob) == 0 {
		return nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("vfio-user: control message: %w", err)
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return fmt.Errorf("vfio-user: control message: %w", err)
		}
		c.fds = append(c.fds, fds...)
	}
	return nil
}

func (c *session) closeFDs() {
	for _, fd := range c.fds {
		unix.Close(fd)
	}
	c.fds = c.fds[:0]
}

// answer carries out a message and replies.
func (c *session) answer(h *header) error {
	if !c.negotiated && h.command != CmdVersion {
		return &ProtocolError{h.command, "the first message must be VERSION"}
	}
	c.out = c.out[:headerSize]
	var file *os.File
	err := error(syscall.EINVAL)
	if len(c.fds) <= maxFDs {
		file, err = c.handle(h.command)
	}
	if h.flags&flagNoReply != 0 {
		return nil
	}
	reply := header{id: h.id, command: h.command, flags: flagReply}
	if err != nil {
		c.out = c.out[:headerSize]
		reply.flags |= flagError
		reply.errno = uint32(errno(err))
		file = nil
	}
	reply.size = uint32(len(c.out))
	reply.encode(c.out)
	if file != nil {
		_, _, err = c.conn.WriteMsgUnix(c.out, unix.UnixRights(int(file.Fd())), nil)
		return err
	}
	_, err = c.conn.Write(c.out)
	return err
}

// errno is what of an error the protocol can tell.
func errno(err error) syscall.Errno {
	var e syscall.Errno
	if errors.As(err, &e) && e != 0 {
		return e
	}
	return syscall.EIO
}
