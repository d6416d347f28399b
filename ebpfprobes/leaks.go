package ebpfprobes

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/kernel"
	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
)

// LeakFilter chooses what a session follows. The zero value is everything.
type LeakFilter struct {
	PID    int // one process; 0 is all but this one, and the kernel's own objects
	Window int // intervals that a verdict is made of; 0 is 6
	// KernelStacks tells the kernel's functions, too, and objects apart by them.
	KernelStacks bool
}

// LeakSession follows objects until it is closed.
type LeakSession struct {
	session
	window int
	done   chan struct{} // the goroutine that reads births has ended
	read   chan struct{} // it has read what there was
	taken  atomic.Int64  // bytes of the ring that it has read

	stacks stackTable
	kernel kernel.Names

	reporting sync.Mutex // over what is below
	sites     map[siteKey]*siteHistory
	last      map[birthKey]*siteHistory // of the last report; nil is too young
	seen      map[birthKey]bool
	inodes    map[siteKey][]uint64 // of dma-bufs, while a report is made
	holders   holderSearch         // of dma-bufs
}

// Leaks begins to follow the births and ends of objects. Those that are older than the
// session are not known to it.
func Leaks(f LeakFilter) (*LeakSession, error) {
	if f.Window == 0 {
		f.Window = 6
	}
	if f.Window < 2 {
		return nil, &Error{Op: "follow", Object: "objects", Err: fmt.Errorf("a window of %d intervals: it takes 2 at least", f.Window)}
	}
	s := &LeakSession{
		window: f.Window, done: make(chan struct{}), read: make(chan struct{}, 1),
		sites: make(map[siteKey]*siteHistory), seen: make(map[birthKey]bool),
		inodes: make(map[siteKey][]uint64),
	}
	s.stacks.reset()
	set := processConstants(f.PID)
	set["want_kernel_stacks"] = boolByte(f.KernelStacks)
	if err := s.open("leaks", leakPoints, objects.LoadLifecycle, set, "births"); err != nil {
		return nil, err
	}
	go s.collect()
	if err := s.session.Attach(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Attach attaches as all sessions do. After Detach it begins anew: what ended meanwhile is
// not known. Without that, when modules have come or gone, what is alive stays known, with
// its history. RDMA objects end with the module that would tell of their ends.
func (s *LeakSession) Attach() error {
	s.reporting.Lock()
	defer s.reporting.Unlock()
	if s.idle() {
		if err := s.forget(func(*liveObject) bool { return true }); err != nil {
			return err
		}
		s.sites, s.last, s.seen = make(map[siteKey]*siteHistory), nil, make(map[birthKey]bool)
		return s.session.Attach()
	}
	told := s.plays(endOfRDMAObjects)
	err := s.session.Attach()
	if told && !s.plays(endOfRDMAObjects) {
		err = errors.Join(err, s.forget(func(o *liveObject) bool { return Resource(o.Resource) != DMABuffer }))
	}
	return err
}

// forget takes objects for ended.
func (s *LeakSession) forget(which func(*liveObject) bool) error {
	all, err := s.objects()
	if err != nil {
		return err
	}
	for i := range all {
		if !which(&all[i]) {
			continue
		}
		if err := s.maps["objects"].Delete(all[i].key.address); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return &Error{Op: "empty", Object: "objects", Err: err}
		}
	}
	return nil
}

// Losses tells what was not seen or kept. Events are stacks of processes.
func (s *LeakSession) Losses() (Losses, error) {
	l, err := s.session.Losses()
	if err == nil {
		l.Stacks, err = s.counter(uint32(objects.LifecycleCounterLOST_STACKS))
	}
	return l, err
}

// Close detaches and frees everything. It may be called twice.
func (s *LeakSession) Close() error {
	err := s.session.Close()
	if s.reader != nil {
		<-s.done
	}
	s.stacks.close()
	return err
}

// collect reads births until the session is closed: at once, since a process may end
// soon, and with it what its stack is named by.
func (s *LeakSession) collect() {
	defer close(s.done)
	var record ringbuf.Record
	for {
		switch err := s.reader.ReadInto(&record); {
		case errors.Is(err, ringbuf.ErrFlushed):
			select {
			case s.read <- struct{}{}:
			default:
			}
			continue
		case err != nil:
			return
		}
		size := ringBytes(len(record.RawSample))
		if len(record.RawSample) < int(unsafe.Sizeof(objects.LifecycleBirth{})) {
			s.taken.Add(size)
			continue
		}
		// In place: thousands come in a second, of 5 KiB each.
		s.stacks.add((*objects.LifecycleBirth)(unsafe.Pointer(unsafe.SliceData(record.RawSample))), s.alive)
		s.taken.Add(size)
	}
}

// ringBytes is what a sample takes in the ring, with its header.
func ringBytes(sample int) int64 { return 8 + int64(sample+7)&^7 }

// mostWait bounds how long a report waits for stacks.
const mostWait = 200 * time.Millisecond

// catchUp waits until collect has taken what was sent until now, but not for long: the
// stacks that are missing then count as not sent.
func (s *LeakSession) catchUp() error {
	s.mu.Lock() // Close unmaps the ring
	if s.closed {
		s.mu.Unlock()
		return &Error{Op: "read", Object: "births", Err: os.ErrClosed}
	}
	until := s.taken.Load()
	until += int64(s.reader.AvailableBytes())
	s.mu.Unlock()
	// The one that collect has at hand may be in neither number. It has none at a flush,
	// which comes when the ring is empty; under load, which it never is, one more is read.
	beyond := until + ringBytes(int(unsafe.Sizeof(objects.LifecycleBirth{})))
	select {
	case <-s.read: // of a report before
	default:
	}
	if err := s.reader.Flush(); err != nil {
		return &Error{Op: "read", Object: "births", Err: err}
	}
	late, look := time.NewTimer(mostWait), time.NewTicker(time.Millisecond)
	defer late.Stop()
	defer look.Stop()
	for s.taken.Load() < beyond {
		select {
		case <-s.read:
			if s.taken.Load() >= until {
				return nil
			}
		case <-look.C:
		case <-late.C:
			return nil
		case <-s.done:
			return nil
		}
	}
	return nil
}

// alive tells whether an object is.
func (s *LeakSession) alive(k birthKey) bool {
	var o objects.LifecycleObject
	return s.maps["objects"].Lookup(k.address, &o) == nil && o.Born == k.born
}
