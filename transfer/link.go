package transfer

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// linkOffer is where the acceptor of the control connection waits for the stream
// that links the fabrics of two processes, on the address of that connection.
type linkOffer struct {
	Port  uint16 `json:"port"`
	Token string `json:"token"` // what the dialer says first: linkToken bytes
}

const (
	linkToken = 26               // bytes, of rand.Text
	linkTime  = 10 * time.Second // for the link to stand
	tokenTime = time.Second      // for a connection to show its token
)

// linkFabrics joins an embedded device to the fabric of the peer's, in another
// process, by a second TCP connection. Whoever accepted the control connection
// accepts this one, from the peer only: the token goes by the control connection.
func linkFabrics(ctx context.Context, via *exchange.Conn, f *device.Fabric, d *device.Device) (*device.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, linkTime)
	defer cancel()
	var conn net.Conn
	var err error
	if via.Role() == exchange.Acceptor {
		conn, err = acceptLink(ctx, via)
	} else {
		conn, err = dialLink(ctx, via)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("connect the fabrics of two processes: %w", err)
	}
	return f.Link(ctx, conn, d)
}

func dialLink(ctx context.Context, via *exchange.Conn) (net.Conn, error) {
	var offer linkOffer
	if err := via.Receive(ctx, typeEFALink, &offer); err != nil {
		return nil, err
	}
	if len(offer.Token) != linkToken || offer.Port == 0 {
		return nil, fmt.Errorf("%w: an offer of a link that makes no sense", exchange.ErrProtocol)
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

func acceptLink(ctx context.Context, via *exchange.Conn) (net.Conn, error) {
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
	if err := via.Send(ctx, typeEFALink, offer); err != nil {
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
