package vfiouser

import (
	"sync"

	"golang.org/x/sys/unix"
)

// interrupts holds the eventfds that the client waits on, by type and vector.
type interrupts struct {
	mu  sync.RWMutex
	fds [numInterrupts][]int // -1 where the client wants no event
}

// fire tells the client of an interrupt. Without an eventfd the interrupt is
// lost, as it is on a function whose MSI-X is disabled.
func (i *interrupts) fire(index, vector int) {
	// The hold keeps the descriptor from being closed, and its number from
	// naming another file, before the write.
	i.mu.RLock()
	defer i.mu.RUnlock()
	if index < 0 || index >= numInterrupts || vector < 0 || vector >= len(i.fds[index]) {
		return
	}
	if fd := i.fds[index][vector]; fd >= 0 {
		one := [8]byte{1}      // an eventfd's increment, in host order
		unix.Write(fd, one[:]) // full (2^64-2) means that the client has an event already
	}
}

// assign gives vectors start and on the eventfds, which become the table's, or
// takes theirs away where fds has -1. total is the device's number of vectors.
func (i *interrupts) assign(index, total, start int, fds []int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	table := i.fds[index]
	for len(table) < total {
		table = append(table, -1)
	}
	for k, fd := range fds {
		if old := table[start+k]; old >= 0 {
			unix.Close(old)
		}
		table[start+k] = fd
	}
	i.fds[index] = table
}

// clear takes away all eventfds of a type.
func (i *interrupts) clear(index int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, fd := range i.fds[index] {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	i.fds[index] = nil
}

func (i *interrupts) clearAll() {
	for index := range numInterrupts {
		i.clear(index)
	}
}
