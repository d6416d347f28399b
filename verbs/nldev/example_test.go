package nldev_test

import (
	"context"
	"fmt"
	"log"

	"github.com/peerdirect/peerdirect/verbs/nldev"
)

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

// Devices as they come and go, on any kernel.
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
