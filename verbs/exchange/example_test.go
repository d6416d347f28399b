package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// A type of the program's own frames, and what they hold.
const typeResult = exchange.TypeUser

type result struct {
	Bytes uint64 `json:"bytes"`
}

// Two sides greet each other, as they would before exchange.ConnectRC; then one of
// them fails, and both know why.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l, err := exchange.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	ended := make(chan error, 1)
	go func() { ended <- other(ctx, l) }()

	conn, err := exchange.Dial(ctx, l.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	peer, err := conn.Greet(ctx, exchange.Hello{Program: "example", Purpose: "demo"})
	if err != nil {
		log.Fatal(err) // another purpose is ErrMismatch, another version ErrVersion
	}
	var r result
	if err := conn.Receive(ctx, typeResult, &r); err != nil {
		log.Fatal(err)
	}
	fmt.Println(peer.Purpose, r.Bytes)
	err = conn.Receive(ctx, typeResult, &r)
	fmt.Println("the peer failed:", errors.Is(err, exchange.ErrNoDevice))
	fmt.Println("and said so:", errors.Is(<-ended, exchange.ErrNoDevice))
	// Output:
	// demo 4096
	// the peer failed: true
	// and said so: true
}

func other(ctx context.Context, l *exchange.Listener) error {
	conn, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	if _, err := conn.Greet(ctx, exchange.Hello{Program: "example", Purpose: "demo"}); err != nil {
		return err
	}
	if err := conn.Send(ctx, typeResult, result{Bytes: 4096}); err != nil {
		return err
	}
	return conn.Fail(exchange.ErrNoDevice) // closes, too
}
