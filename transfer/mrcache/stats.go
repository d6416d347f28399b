package mrcache

import (
	"fmt"
	"time"
)

// Reason is why a request did not hit.
type Reason uint8

const (
	ReasonNew         Reason = iota // nothing of the range was registered
	ReasonPartial                   // a part of it was
	ReasonMerged                    // its neighbours were, and went along
	ReasonAccess                    // it was, with fewer rights
	ReasonReallocated               // another allocation was registered at its addresses
	ReasonUnwatched                 // nobody tells when the memory goes, so it is not kept
	ReasonNoBudget                  // nothing is kept

	reasons
)

func (r Reason) String() string {
	return [...]string{"new", "partial", "merged", "access", "reallocated", "unwatched", "no_budget"}[r]
}

// Cause is why a registration ended.
type Cause uint8

const (
	_                Cause = iota
	CauseEvicted           // it was idle, and room was needed
	CauseMerged            // a larger one took its place
	CauseInvalidated       // by Invalidate
	CauseReallocated       // another allocation came to its addresses
	CauseIdentity          // Identify found its allocation gone
	CauseUnmap             // munmap, or a mapping over it
	CauseRemap             // mremap
	CauseRemove            // madvise gave its pages back
	CauseFork              // the process forked
	CauseUnwatched         // the kernel no longer tells of it
	CauseUsed              // it was for one use
	CauseClosed            // with the cache
	CauseOwned             // a reference was given it for good

	causes
)

func (c Cause) String() string {
	return [...]string{"", "evicted", "merged", "invalidated", "reallocated", "identity", "unmap", "remap", "remove", "fork", "unwatched", "used", "closed", "owned"}[c]
}

// invalidates tells the causes that make a registration wrong from those that
// only make it unwanted.
func (c Cause) invalidates() bool { return c >= CauseInvalidated && c <= CauseUnwatched }

// Event is a registration, or the end of one.
type Event struct {
	Op     string // "register" or "deregister"
	Rail   string
	Range  Range // what was registered, which may be more than was asked for
	Access Access
	Took   time.Duration
	Reason Reason // register: why the request did not hit
	Cause  Cause  // deregister: why it ended
	Note   string // why the memory is not kept, where it could have been
	Err    error
}

// String is a line of a trace.
func (e Event) String() string {
	why := "reason=" + e.Reason.String()
	if e.Op == "deregister" {
		why = "cause=" + e.Cause.String()
	}
	s := fmt.Sprintf("%s rail=%s allocation=%v range=%#x+%d access=%#x took=%v %s", e.Op, e.Rail, e.Range.Alloc, e.Range.Addr, e.Range.Length, uint32(e.Access), e.Took, why)
	if e.Note != "" {
		s += fmt.Sprintf(" note=%q", e.Note)
	}
	if e.Err != nil {
		s += fmt.Sprintf(" error=%q", e.Err.Error())
	}
	return s
}

func (r *rail) trace(e Event) {
	if r.c.trace != nil {
		e.Rail = r.name
		r.c.trace(e)
	}
}

func (f *flight) event(took time.Duration, err error) Event {
	e := Event{Op: "register", Range: f.Range, Access: f.access, Took: took, Reason: f.reason, Err: err}
	if f.unwatched != nil {
		e.Note = f.unwatched.Error()
	}
	return e
}

// buckets are the upper bounds of the histogram of registration times.
var buckets = [...]time.Duration{
	10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond,
	100 * time.Millisecond, time.Second, 10 * time.Second,
}

// counts are what a rail counts under its lock.
type counts struct {
	misses   [reasons]uint64
	joined   uint64
	failures uint64
	ended    [causes]uint64
	stuck    uint64
	times    uint64 // registrations
	took     time.Duration
	under    [len(buckets) + 1]uint64
}

func (s *counts) registered(took time.Duration) {
	s.times++
	s.took += took
	i := 0
	for i < len(buckets) && took > buckets[i] {
		i++
	}
	s.under[i]++
}

// Stats are one rail's numbers since the cache was made. Times are those of the
// registrar alone.
type Stats struct {
	Rail          string            `json:"rail"`
	Hits          uint64            `json:"hits"`
	Misses        map[string]uint64 `json:"misses"` // by reason
	Joined        uint64            `json:"joined"` // requests that waited for another's registration
	Failures      uint64            `json:"failures"`
	Evictions     uint64            `json:"evictions"`
	Merged        uint64            `json:"merged"`
	Invalidations map[string]uint64 `json:"invalidations"` // by cause
	Refused       uint64            `json:"refused"`       // deregistrations that the NIC refused
	Entries       int               `json:"entries"`       // kept
	Regions       int               `json:"regions"`       // registered now, kept or not
	Bytes         uint64            `json:"bytes"`         // in those
	Registrations uint64            `json:"registrations"`
	Seconds       float64           `json:"registration_seconds"` // spent in all of them

	under [len(buckets) + 1]uint64
}

// Stats gives the numbers of each rail. It counts the hits of all entries, and
// misses wait for it meanwhile.
func (c *Cache) Stats() []Stats {
	if c.watch != nil {
		c.watch.settle()
	}
	var all []Stats
	for _, r := range c.rails {
		all = append(all, r.numbers())
	}
	return all
}

func (r *rail) numbers() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := &r.stats
	s := Stats{
		Rail: r.name, Joined: n.joined, Failures: n.failures, Evictions: n.ended[CauseEvicted], Merged: n.ended[CauseMerged],
		Refused: n.stuck, Entries: r.kept, Regions: r.count, Bytes: r.bytes,
		Registrations: n.times, Seconds: n.took.Seconds(), under: n.under,
		Misses: make(map[string]uint64), Invalidations: make(map[string]uint64),
	}
	for i, v := range n.misses {
		s.Misses[Reason(i).String()] = v
	}
	for i, v := range n.ended {
		if Cause(i).invalidates() {
			s.Invalidations[Cause(i).String()] = v
		}
	}
	s.Hits = r.hits.Load()
	r.all(func(e *entry) { s.Hits += e.hits() })
	for e := range r.dying {
		s.Hits += e.hits()
	}
	return s
}
