package control_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/peerdirect/peerdirect/transfer/control"
)

// Two sides that know a token talk; when one leaves, the other knows that it was not
// lost.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	token, err := control.Token(rand.Text())
	if err != nil {
		log.Fatal(err)
	}
	l, err := control.Listen(ctx, "127.0.0.1:0", token, control.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()

	served := make(chan error, 1)
	go func() { // what would be the other program
		conn, err := l.Accept(ctx)
		if err != nil {
			served <- err
			return
		}
		kind, payload, err := conn.Receive(ctx) // the payload is valid until the next
		if err == nil {
			err = conn.Send(kind, append([]byte("you said: "), payload...))
		}
		served <- errors.Join(err, conn.Close())
	}()

	conn, err := control.Dial(ctx, l.Addr().String(), token, control.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Send(control.TypeUser, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	for {
		_, payload, err := conn.Receive(ctx)
		if errors.Is(err, control.ErrLeft) {
			fmt.Println("the peer has left")
			break
		} else if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", conn.Peer(), payload)
	}
	if err := <-served; err != nil {
		log.Fatal(err)
	}
	// Output:
	// token: you said: hello
	// the peer has left
}

// Certificates of one authority, as the command peerdirect cert makes them. A node
// of another authority gets nowhere, and is told nothing; the listener's owner is.
func ExampleIssue() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	issued, err := control.Issue(filepath.Join(dir, "ours"), []string{"node-a"}, 0)
	if err != nil {
		log.Fatal(err)
	}
	a := issued.Certificates[0]
	credentials, err := control.CertificateFiles(a.Certificate, a.Key, issued.Authority)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(issued.Made, a.Name, credentials)

	_, err = control.CertificateFiles(a.Certificate, a.Key, filepath.Join(dir, "theirs.pem"))
	fmt.Println(errors.Is(err, os.ErrNotExist))
	_, err = control.Issue(filepath.Join(dir, "ours"), []string{"node-a"}, 0)
	fmt.Println(errors.Is(err, os.ErrExist))
	// Output:
	// true node-a the certificate of node-a
	// true
	// true
}
