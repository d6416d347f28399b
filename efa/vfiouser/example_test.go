package vfiouser_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"

	"github.com/peerdirect/peerdirect/efa/vfiouser"
)

// scratch is a device with one region, BAR 0, of memory that only the guest uses.
type scratch struct{ bar [4096]byte }

func (s *scratch) Region(index int) uint64 {
	if index == 0 {
		return uint64(len(s.bar))
	}
	return 0
}

func (s *scratch) Interrupts(index int) int { return 0 }

func (s *scratch) ReadRegion(_ int, offset uint64, p []byte) error {
	copy(p, s.bar[offset:])
	return nil
}

func (s *scratch) WriteRegion(_ int, offset uint64, p []byte) error {
	copy(s.bar[offset:], p)
	return nil
}

func (s *scratch) Reset() { clear(s.bar[:]) }

// A device is served to one virtual machine after the other until the context ends:
// QEMU's side is -device '{"driver":"vfio-user-pci","socket":{"type":"unix","path":…}}'.
func ExampleServer() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "dev.sock")

	srv := vfiouser.NewServer(vfiouser.Options{})
	l, err := vfiouser.Listen(path)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, l, new(scratch)) }()

	guest, err := net.Dial("unix", path) // a client that comes and goes without a word
	if err != nil {
		log.Fatal(err)
	}
	guest.Close()

	stop()
	fmt.Println("ended by the context:", errors.Is(<-served, context.Canceled))
	_, err = os.Stat(path)
	fmt.Println("the socket is gone:", errors.Is(err, os.ErrNotExist))
	// Output:
	// ended by the context: true
	// the socket is gone: true
}
