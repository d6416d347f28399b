package path

import "errors"

// work is one thing that a stream has to do, once it may.
type work struct {
	may func() bool
	do  func()
}

type fakeStream struct {
	g     *fakeGPU
	queue []work
}

func (s *fakeStream) add(do func()) error {
	return s.g.now(func() { s.queue = append(s.queue, work{do: do}) })
}

func (s *fakeStream) done() (bool, error) {
	d := s.g.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err != nil {
		return false, err
	}
	for range 8 {
		if d.stuck || len(s.queue) == 0 {
			break
		}
		other := d.streams[d.rnd.IntN(len(d.streams))]
		if len(other.queue) > 0 && (d.lawless || other.queue[0].may == nil || other.queue[0].may()) {
			do := other.queue[0].do
			other.queue = other.queue[1:]
			do()
		}
	}
	return len(s.queue) == 0, nil
}

func (s *fakeStream) wait(e event) error {
	f := e.(*fakeEvent)
	return s.g.now(func() {
		mark := f.marks // as it is now
		s.queue = append(s.queue, work{may: func() bool { return f.passed >= mark }, do: func() {}})
	})
}

func (s *fakeStream) fill(p uint64, v byte, size uint64) error {
	return s.add(func() {
		for i, b := 0, s.g.d.bytes(p, size)[:size]; i < len(b); i++ {
			b[i] = v
		}
	})
}

func (s *fakeStream) toPeer(to uint64, toGPU gpu, from uint64, fromGPU gpu, size uint64) error {
	d := s.g.d
	return s.add(func() {
		if d.enabled[0] && d.enabled[1] {
			d.peer[1]++
		} else {
			d.peer[0]++
		}
		there := d.bytes(to, size)
		copy(there[:size], d.bytes(from, size))
		if d.spoil != nil {
			d.spoil(there, int(size))
		}
	})
}

func (s *fakeStream) toHost(b []byte, from uint64) error {
	return s.add(func() { copy(b, s.g.d.bytes(from, uint64(len(b)))) })
}

func (s *fakeStream) toDevice(to uint64, b []byte) error {
	return s.add(func() { copy(s.g.d.bytes(to, uint64(len(b))), b) })
}

func (s *fakeStream) close() error {
	if len(s.queue) > 0 {
		return errors.New("a stream is closed with work in it")
	}
	return s.g.close()
}

// fakeEvent counts its marks in streams, and those that streams have passed.
type fakeEvent struct {
	g             *fakeGPU
	marks, passed int
}

func (e *fakeEvent) record(s stream) error {
	f := s.(*fakeStream)
	if f.g != e.g {
		return errors.New("an event of another GPU's context")
	}
	return e.g.now(func() {
		e.marks++
		mark := e.marks
		f.queue = append(f.queue, work{do: func() { e.passed = mark }})
	})
}

func (e *fakeEvent) close() error { return e.g.close() }

// alone does what the stream can do while no other does anything, and gives how much
// is left.
func (s *fakeStream) alone() int {
	for len(s.queue) > 0 && (s.queue[0].may == nil || s.queue[0].may()) {
		do := s.queue[0].do
		s.queue = s.queue[1:]
		do()
	}
	return len(s.queue)
}
