package device_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/efa/wire"
)

// The control operations of a device are what a driver's admin commands come down
// to. What the device refuses has the status that the driver would see.
func ExampleDevice() {
	fabric := device.NewFabric(device.FabricOptions{})
	defer fabric.Close() // and its devices
	dev, err := fabric.NewDevice(device.Options{Name: "efa_0", MaxMRs: 1})
	if err != nil {
		log.Fatal(err)
	}
	pd, err := dev.AllocPD()
	if err != nil {
		log.Fatal(err)
	}
	region := device.MROptions{PD: pd, IOVA: 1 << 20, Length: 4096, Pages: []uint64{1 << 20}, Access: wire.AccessLocalWrite}
	info, err := dev.RegisterMR(region)
	if err != nil {
		log.Fatal(err)
	}
	_, err = dev.RegisterMR(region)
	var refused *device.StatusError
	if errors.As(err, &refused) {
		fmt.Println(refused.Status, "-", refused.Reason)
	}
	if err := errors.Join(dev.DeregisterMR(info.LKey), dev.DeallocPD(pd)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(dev.Stats().Registrations, "region was registered")
	// Output:
	// RESOURCE_ALLOCATION_FAILURE - all 1 memory regions are in use
	// 1 region was registered
}

// Faults are drawn from a seed and from what they befall, so the same work meets the
// same ones.
func ExampleFaults() {
	fabric := device.NewFabric(device.FabricOptions{Seed: 1})
	defer fabric.Close()
	fabric.Faults().Set(device.FaultPlan{Seed: 12, Loss: 0.01, Duplicate: 0.01, RNR: 0.05})
	// … what is to be tested works on the fabric's devices here …
	fabric.Faults().Update(func(p *device.FaultPlan) { p.LinkDown = true })
	fmt.Println(fabric.Faults().Plan().LinkDown, fabric.Faults().Counts().Total())
	fabric.Faults().Clear()
	// Output: true 0
}
