package control

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"time"
)

// session is a connection whose sides have proved themselves and said hello.
type session struct {
	nc    net.Conn
	tls   *tls.Conn
	name  string        // of the peer
	lease time.Duration // how long the peer bears silence
}

// prove makes a session of a connection, or closes it. The context must end.
func prove(ctx context.Context, nc net.Conn, c Credentials, r role, o Options) (*session, error) {
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	s, err := handshake(nc, c.kind, r, o)
	if !stop() {
		// Closed under the handshake, or just after it.
		if err = context.Cause(ctx); err == context.DeadlineExceeded {
			err = why(err, "the %s did not prove itself in time", r.other())
		}
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return s, nil
}

func handshake(nc net.Conn, k kind, r role, o Options) (*session, error) {
	config := k.config(r, o)
	var t *tls.Conn
	if r == dialler {
		t = tls.Client(nc, config)
	} else {
		t = tls.Server(nc, config)
	}
	if err := t.Handshake(); err != nil {
		return nil, tlsError(err, k, r)
	}
	s := &session{nc: nc, tls: t}
	var err error
	switch k := k.(type) {
	case *shared:
		s.name, err = "token", k.prove(t, r)
	case *certificates:
		s.name = nameOf(t.ConnectionState().PeerCertificates[0])
	}
	if err == nil {
		s.lease, err = greet(t, o.Lease)
	}
	if err != nil {
		// With TLS 1.3 the dialler is done before the listener has seen its
		// certificate: a refusal comes as an answer to what follows.
		return nil, tlsError(err, k, r)
	}
	return s, nil
}

// greet exchanges hellos.
func greet(t *tls.Conn, lease time.Duration) (theirs time.Duration, err error) {
	if _, err := t.Write(appendHello(nil, lease)); err != nil {
		return 0, err
	}
	b := make([]byte, headerSize, headerSize+maxHello)
	if _, err := io.ReadFull(t, b); err != nil {
		return 0, err
	}
	typ, _, size, err := parseFrame(b)
	if err == nil {
		err = checkHelloHeader(typ, size)
	}
	if err != nil {
		return 0, err
	}
	b = b[:size]
	if _, err := io.ReadFull(t, b[headerSize:]); err != nil {
		return 0, err
	}
	return parseHello(b[headerSize:])
}

const (
	proofSize  = sha256.Size
	proofLabel = "EXPORTER-peerdirect-control-token"
)

// prove shows the peer that this side knows the token, and has it shown. The
// dialler goes first.
func (k *shared) prove(t *tls.Conn, r role) error {
	state := t.ConnectionState()
	bound, err := state.ExportKeyingMaterial(proofLabel, nil, sha256.Size)
	if err != nil {
		return err
	}
	if r == dialler {
		if _, err := t.Write(k.proof(r, bound)); err != nil {
			return err
		}
	}
	theirs := make([]byte, proofSize)
	if _, err := io.ReadFull(t, theirs); err != nil {
		if r == dialler && shut(err) {
			return why(ErrPermission, "the listener closed the connection when it saw the proof of the token: the two sides' tokens differ, or someone is between them")
		}
		return err
	}
	if !hmac.Equal(theirs, k.proof(r.other(), bound)) {
		return why(ErrPermission, "the %s does not know the token: give both sides the same", r.other())
	}
	if r == listener {
		_, err = t.Write(k.proof(r, bound))
	}
	return err
}

// proof is bound to the connection, so that it is worth nothing on another, and
// to the role, so that it is worth nothing sent back.
func (k *shared) proof(r role, bound []byte) []byte {
	h := hmac.New(sha256.New, k.key)
	h.Write([]byte(r))
	h.Write(bound)
	return h.Sum(nil)
}

// tlsError says what a failed handshake means.
func tlsError(err error, k kind, r role) error {
	if _, ok := err.(*Error); ok {
		return err
	}
	if e, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return why(ErrProtocol, "the %s sent %q instead of TLS: is it another service, or a peer without credentials?", r.other(), e.RecordHeader[:])
	}
	c, certified := k.(*certificates)
	e, isOp := errors.AsType[*net.OpError](err)
	if isOp && e.Op == "local error" {
		return why(ErrProtocol, "the handshake failed: %v", e.Err)
	}
	if isOp && e.Op == "remote error" {
		switch alert := e.Err.Error(); {
		case alert == "tls: no application protocol":
			return otherKind(k, r)
		case alert == "tls: bad certificate" && certified:
			if now := c.now(); now.After(c.own.Leaf.NotAfter) || now.Before(c.own.Leaf.NotBefore) {
				return why(ErrPermission, "the %s does not take the certificate of %s: it has expired, or is not yet valid; make another with: peerdirect cert", r.other(), c.name)
			}
			return why(ErrPermission, "the %s does not take the certificate of %s: it is of another authority, has not the name that was to be there, or is not fit for this; the other side knows which", r.other(), c.name)
		default:
			return why(ErrProtocol, "the %s ended the handshake: %s", r.other(), alert)
		}
	}
	if shut(err) {
		return why(ErrGone, "the %s closed the connection before both sides had proved themselves", r.other())
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return err
	}
	// The rest is package tls's own, and has no types.
	switch text := plain(err.Error()); {
	case r == listener && strings.HasPrefix(text, "tls: client requested unsupported application protocols"):
		return otherKind(k, r)
	case r == listener && text == "tls: client didn't provide a certificate":
		return why(ErrPermission, "the dialler showed no certificate")
	default:
		return why(ErrProtocol, "the handshake failed: %s", text)
	}
}

// otherKind is the error where TLS found no application protocol in common.
func otherKind(k kind, r role) error {
	if _, ok := k.(*certificates); ok {
		return why(ErrPermission, "this side has a certificate, and the %s takes none: does it use a token? Give both sides the same kind of credentials", r.other())
	}
	return why(ErrPermission, "this side has a token, and the %s takes none: does it use certificates? Give both sides the same kind of credentials", r.other())
}
