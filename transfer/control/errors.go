package control

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"unicode"

	"github.com/peerdirect/peerdirect/internal/errname"
)

// Classes of errors, for errors.Is.
var (
	// ErrPermission: one side has not proved itself to the other.
	ErrPermission = fs.ErrPermission
	// ErrVersion: the peer speaks another version of this protocol.
	ErrVersion = errors.New("protocol version mismatch")
	// ErrProtocol: what came is not this protocol, or breaks its rules.
	ErrProtocol = errors.New("protocol error")
	// ErrGone: the peer went without a word, or was silent for the lease.
	ErrGone = errors.New("the peer is gone")
	// ErrLeft: the peer closed its side, and said so.
	ErrLeft = errors.New("the peer has left")
	// ErrSlow: the peer does not read what it is sent.
	ErrSlow = errors.New("the peer is too slow")
	// ErrClosed: this side was closed.
	ErrClosed = fs.ErrClosed
	// ErrCredentials: a file of a certificate, a key or an authority that is no
	// use.
	ErrCredentials = errors.New("unusable credentials")
	// ErrUsage: what was asked for makes no sense, whatever the peer does.
	ErrUsage = errors.New("usage error")
)

// Error is an operation of this package that failed.
type Error struct {
	Op     string // as "dial", "listen on", "control connection with"
	Peer   string // address, with the peer's name where it is known; or a file
	Err    error  // a class, an errno or a context's error
	Detail string // the cause, and the remedy
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Peer != "" {
		b.WriteString(" " + e.Peer)
	}
	// A detail says all there is to say of a class of this package.
	if e.Detail == "" || !isClass(e.Err) {
		b.WriteString(": " + errText(e.Err))
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

func isClass(err error) bool {
	switch err {
	case ErrPermission, ErrVersion, ErrProtocol, ErrGone, ErrLeft, ErrSlow, ErrCredentials, ErrUsage:
		return true
	}
	return false
}

func errText(err error) string {
	if err == ErrClosed {
		return "closed by this side"
	}
	return errname.Text(err)
}

// why makes an error that lacks operation and peer: whoever knows them adds them.
func why(class error, format string, args ...any) *Error {
	return &Error{Err: class, Detail: fmt.Sprintf(format, args...)}
}

// about adds operation and peer to an error.
func about(op, peer string, err error) *Error {
	if e, ok := err.(*Error); ok {
		return &Error{Op: op, Peer: peer, Err: e.Err, Detail: e.Detail}
	}
	// What package net wraps, without the addresses that are named already.
	if e, ok := errors.AsType[*net.OpError](err); ok {
		err = e.Err
	}
	return &Error{Op: op, Peer: peer, Err: err}
}

// shut tells that the other end closed or dropped the connection.
func shut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// plain makes text of a peer harmless on a terminal: short, on one line.
func plain(text string) string {
	const most = 256
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
