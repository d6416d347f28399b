// Package freeport gives tests a TCP port of the loopback address on which nobody
// listens, for what has to know its port before it is there, or that it is not.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// The kernel's own choice (net.ipv4.ip_local_port_range begins at 32768) may be the
// next program's as soon as it is free: other packages' tests run at the same time.
const first, ports = 20000, 10000

// TCP gives a port that was free a moment ago.
func TCP(t testing.TB) int {
	t.Helper()
	var last error
	for range 100 {
		port := first + rand.IntN(ports)
		l, err := net.Listen("tcp", Addr(port))
		if err == nil {
			l.Close()
			return port
		}
		last = err
	}
	t.Fatal(last)
	return 0
}

// Addr is the port of the loopback address.
func Addr(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
