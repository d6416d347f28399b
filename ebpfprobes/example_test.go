package ebpfprobes_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// What could be attached on this kernel, and why not the rest: it attaches nothing.
func ExampleProbes() {
	probes := ebpfprobes.Probes()
	unexplained := 0
	for _, p := range probes {
		fmt.Fprintln(os.Stderr, p)
		if p.Usable == ebpfprobes.No && p.Why == "" {
			unexplained++
		}
	}
	err := ebpfprobes.Lacking(probes)
	if err != nil && !errors.Is(err, ebpfprobes.ErrUnsupported) && !errors.Is(err, ebpfprobes.ErrPermission) {
		log.Fatal(err)
	}
	fmt.Println(len(probes) > 0, unexplained)
	// Output: true 0
}

// The time that a slot of a histogram stands for; slots are 6 % wide at most.
func ExampleHistogram() {
	var h ebpfprobes.Histogram
	h.Slots = make([]uint64, 1024)
	for slot := range h.Slots {
		if low, high := ebpfprobes.SlotRange(slot); low <= 10*time.Microsecond && 10*time.Microsecond < high {
			h.Slots[slot], h.Count, h.Sum, h.Longest = 3, 3, 30*time.Microsecond, 10*time.Microsecond
		}
	}
	fmt.Println(h.Count, h.Mean(), h.Quantile(0.5).Round(time.Microsecond))
	// Output: 3 10µs 10µs
}

// Registrations of a process: by the kernel's functions, or where these cannot be
// attached by the system calls alone. Nothing stays attached when the session is
// closed.
func ExampleRegistrations() {
	if err := registrations(os.Getpid(), func() { time.Sleep(10 * time.Second) }); err != nil {
		log.Fatal(err)
	}
}

// registrations follows a process while something goes on.
func registrations(pid int, meanwhile func()) (err error) {
	type session interface {
		Rows() ([]ebpfprobes.RegistrationRow, error)
		Losses() (ebpfprobes.Losses, error)
		Close() error
	}
	var s session
	s, err = ebpfprobes.Registrations(ebpfprobes.Filter{PID: pid})
	if errors.Is(err, ebpfprobes.ErrUnsupported) {
		s, err = ebpfprobes.RegistrationsBySyscalls(ebpfprobes.Filter{PID: pid})
	}
	if err != nil {
		return err // ErrPermission: CAP_BPF and CAP_PERFMON are missing
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	meanwhile()
	rows, err := s.Rows()
	if err != nil {
		return err
	}
	for _, r := range rows {
		fmt.Fprintln(os.Stderr, r.Whole.Quantile(0.99))
		fmt.Println(r.Command, r.Device, r.Operation, r.Kind, r.Size, r.Whole.Count)
	}
	if lost, err := s.Losses(); err == nil && lost.Any() {
		fmt.Printf("not all was seen: %+v\n", lost)
	}
	return nil
}
