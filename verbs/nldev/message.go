package nldev

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// A message is one netlink message (struct nlmsghdr of
// include/uapi/linux/netlink.h, then the body).
type message struct {
	kind  uint16 // a command of a client, or one of NLMSG_*
	flags uint16
	seq   uint32
	port  uint32 // of the requesting socket
	body  []byte
}

const messageHeader = unix.NLMSG_HDRLEN

func (m message) append(b []byte) []byte {
	b = binary.NativeEndian.AppendUint32(b, uint32(messageHeader+len(m.body)))
	b = binary.NativeEndian.AppendUint16(b, m.kind)
	b = binary.NativeEndian.AppendUint16(b, m.flags)
	b = binary.NativeEndian.AppendUint32(b, m.seq)
	b = binary.NativeEndian.AppendUint32(b, m.port)
	b = append(b, m.body...)
	return append(b, make([]byte, align(len(m.body))-len(m.body))...)
}

// parseMessages takes a datagram apart. The bodies are parts of b.
func parseMessages(b []byte) ([]message, error) {
	var messages []message
	for len(b) > 0 {
		if len(b) < messageHeader {
			return nil, fmt.Errorf("%w: %d bytes where a message should start", errMalformed, len(b))
		}
		size := binary.NativeEndian.Uint32(b)
		if size < messageHeader || uint64(size) > uint64(len(b)) {
			return nil, fmt.Errorf("%w: message claims %d bytes of %d", errMalformed, size, len(b))
		}
		messages = append(messages, message{
			kind:  binary.NativeEndian.Uint16(b[4:]),
			flags: binary.NativeEndian.Uint16(b[6:]),
			seq:   binary.NativeEndian.Uint32(b[8:]),
			port:  binary.NativeEndian.Uint32(b[12:]),
			body:  b[messageHeader:size],
		})
		b = b[min(align(int(size)), len(b)):]
	}
	return messages, nil
}

// A refusal is the kernel's negative answer: its errno, and what it said of the
// reason, if it said anything.
type refusal struct {
	errno  syscall.Errno
	reason string
}

func (r *refusal) Error() string { return r.errno.Error() + ": " + r.reason }

// parseVerdict reads how a request ended from the body of NLMSG_ERROR (an errno
// and the header of the request, which an acknowledgement also has) or of
// NLMSG_DONE (an errno alone). The error is a *refusal unless the message is
// malformed.
func parseVerdict(m message) error {
	if len(m.body) < 4 {
		if m.kind == unix.NLMSG_DONE {
			return nil // netlink_dump always sends an errno; others need not
		}
		return fmt.Errorf("%w: a verdict of %d bytes", errMalformed, len(m.body))
	}
	code := int32(binary.NativeEndian.Uint32(m.body))
	if code == 0 {
		return nil
	}
	if code > 0 || code < -4095 { // MAX_ERRNO of include/linux/err.h
		return fmt.Errorf("%w: %d is no error number", errMalformed, code)
	}
	r := &refusal{errno: syscall.Errno(-code)}
	if m.flags&unix.NLM_F_ACK_TLVS != 0 {
		// The attributes follow the header of the request, whose body
		// NETLINK_CAP_ACK keeps away.
		at := 4
		if m.kind == unix.NLMSG_ERROR {
			at += messageHeader
		}
		words := attrReader{rest: m.body[min(at, len(m.body)):]}
		for words.next() {
			if words.kind == unix.NLMSGERR_ATTR_MSG {
				r.reason = words.text()
			}
		}
	}
	return r
}
