package exchange

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/peerdirect/peerdirect/internal/errname"
)

// Classes of errors, for errors.Is.
var (
	// ErrProtocol: what came is not this protocol, or breaks its rules.
	ErrProtocol = errors.New("protocol error")
	// ErrVersion: the peer speaks another version of the protocol.
	ErrVersion = errors.New("protocol version mismatch")
	// ErrMismatch: the two sides do not fit together: another purpose, another
	// number of queue pairs, another transport.
	ErrMismatch = errors.New("the two sides do not match")
	// ErrGone: the peer closed the connection, or does not answer any more.
	ErrGone = errors.New("the peer is gone")
	// ErrVerification: data arrived that is not what was sent.
	ErrVerification = errors.New("verification failed")
	// ErrUsage: the program was asked for something that makes no sense.
	ErrUsage = errors.New("usage error")

	ErrClosed      = fs.ErrClosed
	ErrNoDevice    = error(syscall.ENODEV)
	ErrPermission  = fs.ErrPermission
	ErrUnsupported = errors.ErrUnsupported
)

// Error is an operation of this package that failed.
type Error struct {
	Op     string // as "dial", "receive hello"
	Peer   string // the peer's address, or the one listened on
	Err    error  // a class, an errno, a context's error, or a *RemoteError
	Detail string // what was wrong, and the remedy
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Peer != "" {
		b.WriteString(" " + e.Peer)
	}
	// A detail says all there is to say of a class of this package.
	if e.Err != nil && (e.Detail == "" || !isClass(e.Err)) {
		b.WriteString(": " + errname.Text(e.Err))
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

func isClass(err error) bool {
	return err == ErrProtocol || err == ErrVersion || err == ErrMismatch || err == ErrGone
}

// Class is what kind of failure a peer reports: the exit codes of the command
// line, by name.
type Class string

const (
	ClassFailed       Class = "failed"
	ClassUsage        Class = "usage"
	ClassNoDevice     Class = "no-device"
	ClassPermission   Class = "permission"
	ClassUnsupported  Class = "unsupported"
	ClassVerification Class = "verification"
)

var classErrors = map[Class]error{
	ClassUsage:        ErrUsage,
	ClassNoDevice:     ErrNoDevice,
	ClassPermission:   ErrPermission,
	ClassUnsupported:  ErrUnsupported,
	ClassVerification: ErrVerification,
}

// ClassOf is the class that a peer is told for an error.
func ClassOf(err error) Class {
	for _, class := range []Class{ClassUsage, ClassVerification, ClassNoDevice, ClassPermission, ClassUnsupported} {
		if errors.Is(err, classErrors[class]) {
			return class
		}
	}
	return ClassFailed
}

// RemoteError is what the peer said of its own failure. It unwraps to the error
// of its class, so that both programs end with the same exit code.
type RemoteError struct {
	Text  string `json:"text"`
	Class Class  `json:"class"`
}

func (e *RemoteError) Error() string { return "the peer failed: " + e.Text }

func (e *RemoteError) Unwrap() error { return classErrors[e.Class] }

const textMax = 4096 // bytes of a peer's text

// plain makes a peer's text harmless on a terminal: one line, no control
// characters, not too long.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, text)
	if len(text) > textMax {
		cut := textMax
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "…"
	}
	return text
}
