package exchange

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
)

// Hello is how a program introduces itself.
type Hello struct {
	Program string          `json:"program"`           // "peerdirect"
	Version string          `json:"version,omitempty"` // of the program
	Purpose string          `json:"purpose"`           // "perf"; both sides must have the same
	Host    string          `json:"host,omitempty"`
	Options json.RawMessage `json:"options,omitempty"` // what both must know before they begin
}

// Greet exchanges hellos, the first thing both sides do. Programs that are there
// for something else part with an error that names both purposes.
func (c *Conn) Greet(ctx context.Context, own Hello) (peer Hello, err error) {
	if own.Purpose == "" {
		return peer, c.error("greet", &Error{Err: ErrUsage, Detail: "a hello needs a purpose"})
	}
	if c.role == Dialer {
		err = c.Send(ctx, typeHello, own)
	}
	if err == nil {
		err = c.Receive(ctx, typeHello, &peer)
	}
	if err == nil && peer.Purpose != own.Purpose {
		err = c.error("greet", &Error{Err: ErrMismatch, Detail: fmt.Sprintf(
			"one side runs %s, the other %s: run the same command on both", quoted(peer.Purpose), quoted(own.Purpose))})
	}
	if err == nil && c.role == Acceptor {
		err = c.Send(ctx, typeHello, own)
	}
	if err != nil {
		return Hello{}, c.Fail(err)
	}
	peer.Program, peer.Version, peer.Host = plain(peer.Program), plain(peer.Version), plain(peer.Host)
	return peer, nil
}

// quoted shows a word of the peer's.
func quoted(word string) string {
	const most = 64
	if len(word) > most {
		word = word[:most] + "…"
	}
	return strconv.Quote(word)
}
