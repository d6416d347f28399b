package rdmacm_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"time"

	"github.com/peerdirect/peerdirect/verbs/rdmacm"
)

// An address that no RDMA device has cannot be listened on: because the kernel's
// module is not loaded, the process may not open its node, or no device leads there.
func ExampleListen() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l, err := rdmacm.Listen(ctx, netip.MustParseAddrPort("203.0.113.77:0"))
	var failed *rdmacm.Error
	switch {
	case errors.Is(err, rdmacm.ErrPermission): // needs read and write on rdmacm.Path
		fmt.Println("going by TCP")
	case errors.As(err, &failed):
		fmt.Println("going by TCP") // failed.Detail is cause and remedy
	case err != nil:
		log.Fatal(err)
	default:
		defer l.Close()
	}
	// Output: going by TCP
}
