package main

import (
	"sync"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
)

// efaFlap takes the links of a lab's EFA devices down, one after the other.
type efaFlap struct {
	every time.Duration // of this, a link is down half; 0 for never

	mu      sync.Mutex
	devices []*device.Function
}

func (f *efaFlap) made(_, _ int, fn *device.Function) {
	if f.every == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.devices = append(f.devices, fn); len(f.devices) == 1 {
		go f.run() // until the program ends
	}
}

func (f *efaFlap) run() {
	for i := 0; ; i++ {
		time.Sleep(f.every / 2)
		f.mu.Lock()
		faults := f.devices[i%len(f.devices)].Device().Faults()
		f.mu.Unlock()
		faults.Update(func(p *device.FaultPlan) { p.LinkDown = true })
		time.Sleep(f.every - f.every/2)
		faults.Update(func(p *device.FaultPlan) { p.LinkDown = false })
	}
}
