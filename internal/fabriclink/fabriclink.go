// Package fabriclink joins the embedded EFA devices of two processes that have a
// control connection, by a second TCP connection beside it.
package fabriclink

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/internal/admit"
	"github.com/peerdirect/peerdirect/transfer/control"
)

// offer is where the side that was dialled waits for the stream that links the
// fabrics of two processes, on the address of the control connection.
type offer struct {
	Port  uint16 `json:"port"`
	Token string `json:"token"` // what the dialler says first: tokenSize bytes
}

const (
	tokenSize = 26               // bytes, of rand.Text
	linkTime  = 10 * time.Second // for the link to stand
	tokenTime = time.Second      // for a connection to show its token
)

// ErrOffer: what the peer sent is no offer of a link.
var ErrOffer = errors.New("the peer's offer of a link cannot be read")

// Join links a fabric with that of the peer's process, which calls it at the same
// time. Whoever accepted the control connection accepts this one, from the peer only:
// a token goes by the control connection, in a message of the type given, the only one
// that is received meanwhile.
func Join(ctx context.Context, via *control.Conn, kind control.Type, dialled bool, f *device.Fabric) (*device.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, linkTime)
	defer cancel()
	var conn net.Conn
	var err error
	if dialled {
		conn, err = dial(ctx, via, kind)
	} else {
		conn, err = accept(ctx, via, kind)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("connect the fabrics of two processes: %w", err)
	}
	return f.Link(ctx, conn)
}

// readOffer reads what the side that was dialled sent.
func readOffer(b []byte) (o offer, err error) {
	if err := json.Unmarshal(b, &o); err != nil || len(o.Token) != tokenSize || o.Port == 0 {
		return offer{}, ErrOffer
	}
	return o, nil
}

func dial(ctx context.Context, via *control.Conn, want control.Type) (net.Conn, error) {
	kind, b, err := via.Receive(ctx)
	if err != nil {
		return nil, err
	}
	if kind != want {
		return nil, fmt.Errorf("%w: it is a message of %v", ErrOffer, kind)
	}
	o, err := readOffer(b)
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(via.RemoteAddr().String())
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(host, fmt.Sprint(o.Port)))
	if err != nil {
		return nil, fmt.Errorf("%w (a firewall must let this port pass, too)", err)
	}
	conn.SetWriteDeadline(time.Now().Add(tokenTime))
	if _, err := io.WriteString(conn, o.Token); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func accept(ctx context.Context, via *control.Conn, kind control.Type) (net.Conn, error) {
	host, _, err := net.SplitHostPort(via.LocalAddr().String())
	if err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	o := offer{Port: uint16(l.Addr().(*net.TCPAddr).Port), Token: rand.Text()}
	b, err := json.Marshal(o)
	if err == nil {
		err = via.Send(kind, b)
	}
	if err != nil {
		return nil, err
	}
	return admit.One(ctx, l, []byte(o.Token))
}
