package pages

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer/control"
)

// linkOffer is where the side that was dialled waits for the stream that links the
// fabrics of two processes, on the address of the control connection.
type linkOffer struct {
	Port  uint16 `json:"port"`
	Token string `json:"token"` // what the dialler says first: linkToken bytes
}

const (
	linkToken = 26               // bytes, of rand.Text
	linkTime  = 10 * time.Second // for the link to stand
	tokenTime = time.Second      // for a connection to show its token
)

// linkFabrics joins embedded devices to those of the peer's process by a second TCP
// connection. Whoever accepted the control connection accepts this one, from the
// peer only: the token goes by the control connection.
func linkFabrics(ctx context.Context, via *control.Conn, dialled bool, f *device.Fabric) (*device.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, linkTime)
	defer cancel()
	var conn net.Conn
	var err error
	if dialled {
		conn, err = dialLink(ctx, via)
	} else {
		conn, err = acceptLink(ctx, via)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("connect the fabrics of two processes: %w", err)
	}
	return f.Link(ctx, conn)
}

func dialLink(ctx context.Context, via *control.Conn) (net.Conn, error) {
	kind, b, err := via.Receive(ctx)
	if err != nil {
		return nil, err
	}
	var offer linkOffer
	if err := json.Unmarshal(b, &offer); err != nil || kind != typeLink || len(offer.Token) != linkToken || offer.Port == 0 {
		return nil, malformed("an offer of a link that cannot be read")
	}
	host, _, err := net.SplitHostPort(via.RemoteAddr().String())
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(host, fmt.Sprint(offer.Port)))
	if err != nil {
		return nil, fmt.Errorf("%w (a firewall must let this port pass, too)", err)
	}
	conn.SetWriteDeadline(time.Now().Add(tokenTime))
	if _, err := io.WriteString(conn, offer.Token); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func acceptLink(ctx context.Context, via *control.Conn) (net.Conn, error) {
	host, _, err := net.SplitHostPort(via.LocalAddr().String())
	if err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	offer := linkOffer{Port: uint16(l.Addr().(*net.TCPAddr).Port), Token: rand.Text()}
	b, err := json.Marshal(offer)
	if err == nil {
		err = via.Send(typeLink, b)
	}
	if err != nil {
		return nil, err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return nil, err
		}
		var got [linkToken]byte
		conn.SetReadDeadline(time.Now().Add(tokenTime))
		if _, err := io.ReadFull(conn, got[:]); err == nil && subtle.ConstantTimeCompare(got[:], []byte(offer.Token)) == 1 {
			return conn, nil
		}
		conn.Close() // a stranger
	}
}
