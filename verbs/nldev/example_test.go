package nldev_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/peerdirect/peerdirect/verbs/nldev"
)

// The machine's devices. A kernel without RDMA is an error of its own, and no device
// is none at all.
func ExampleOpen() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := nldev.Open()
	if errors.Is(err, nldev.ErrNoDevice) {
		fmt.Println("asked") // ib_core is not loaded, or not built
		return
	} else if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	devices, err := c.Devices(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range devices {
		fmt.Fprintln(os.Stderr, d.Name)
	}
	fmt.Println("asked")
	// Output: asked
}

// Whose memory is registered with which device, and how much of it.
func ExampleClient_MRs() {
	ctx := context.Background()
	c, err := nldev.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	regions, err := c.MRs(ctx, nldev.Filter{})
	if err != nil {
		log.Fatal(err)
	}
	for _, mr := range regions {
		fmt.Printf("%s\t%d bytes\t%v\n", mr.Device, mr.Length, mr.Owner)
	}
}

// Devices as they come and go, on any kernel, until the context ends.
func ExampleClient_Watch() {
	ctx := context.Background()
	c, err := nldev.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for event, err := range c.Watch(ctx, nldev.WatchOptions{}) {
		if err != nil {
			log.Print(err)
			continue
		}
		fmt.Println(event.Type, event.Device, event.Netdev)
	}
}
