package efa_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/efa/device"
)

// A program takes the machine's device where it has one, and one in its own process
// where it has none.
func ExampleOpen() {
	fabric := device.NewFabric(device.FabricOptions{})
	defer fabric.Close()
	dev, err := efa.Open("efa_that_is_not_here") // "" is the machine's only one
	switch {
	case errors.Is(err, efa.ErrNoDevice), errors.Is(err, efa.ErrUnsupported):
		dev, err = efa.Embedded(fabric, device.Options{Name: "embedded"})
	case errors.Is(err, efa.ErrPermission):
		log.Fatal(err) // the message says what to do
	}
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	fmt.Println(dev.Name(), dev.Path())
	// Output: embedded direct
}

// An object that others stand on refuses to close and names them; closing is in the
// reverse order of making, and may be repeated.
func ExampleDevice_Close() {
	fabric := device.NewFabric(device.FabricOptions{})
	defer fabric.Close()
	dev, err := efa.Embedded(fabric, device.Options{Name: "efa_0"})
	if err != nil {
		log.Fatal(err)
	}
	mr, err := dev.Register(make([]byte, 4096), efa.LocalWrite)
	if err != nil {
		log.Fatal(err)
	}
	err = dev.Close()
	fmt.Println(errors.Is(err, efa.ErrBusy))
	fmt.Println(mr.Close(), dev.Close(), dev.Close(), efa.Live())
	// Output:
	// true
	// <nil> <nil> <nil> map[]
}
