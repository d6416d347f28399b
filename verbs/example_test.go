package verbs_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/peerdirect/peerdirect/verbs"
)

// A program starts without rdma-core and without a device; what it lacks is an error
// of a class, and the text says what to do.
func ExampleOpen() {
	dev, err := verbs.Open("mlx5_that_is_not_here") // "" is the machine's only one
	switch {
	case errors.Is(err, verbs.ErrNoDevice), errors.Is(err, verbs.ErrUnsupported):
		fmt.Println("going by TCP")
		return
	case errors.Is(err, verbs.ErrPermission):
		log.Fatal(err) // of the device's node, or of memory that may not be locked
	case err != nil:
		log.Fatal(err)
	}
	defer dev.Close()
	fmt.Println(dev.Name())
	// Output: going by TCP
}

// Memory for a NIC is mapped, and no part of Go's heap.
func ExampleNewBuffer() {
	buf, err := verbs.NewBuffer(1<<20, verbs.BufferOptions{Populate: true})
	if err != nil {
		log.Fatal(err)
	}
	copy(buf.Bytes(), "ready to be registered")
	fmt.Printf("%d bytes: %s\n", len(buf.Bytes()), buf.Bytes()[:22])
	fmt.Println(buf.Close(), buf.Close(), buf.Bytes() == nil)
	// Output:
	// 1048576 bytes: ready to be registered
	// <nil> <nil> true
}
