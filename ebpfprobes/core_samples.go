package ebpfprobes

import (
	"context"
	"errors"
	"iter"
	"os"

	"github.com/cilium/ebpf/ringbuf"
)

// samples gives what the programs send until the context ends, to the last that was sent
// before; then it ends without an error. A sample is good until the next.
func (s *session) samples(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if s.reader == nil {
			yield(nil, &Error{Op: "read", Object: "events", Err: errors.New("the session was begun without Events in its filter")})
			return
		}
		// A deadline does not end a Read that waits.
		stop := context.AfterFunc(ctx, func() { s.reader.Flush() })
		defer stop()
		var record ringbuf.Record
		left := -1 // bytes to read after the end: what is sent meanwhile is not followed
		for {
			if left < 0 && ctx.Err() != nil {
				left = s.reader.AvailableBytes()
			}
			if left == 0 {
				return
			}
			err := s.reader.ReadInto(&record)
			switch {
			case errors.Is(err, ringbuf.ErrFlushed) && ctx.Err() == nil:
				continue // of a context before
			case errors.Is(err, ringbuf.ErrFlushed), errors.Is(err, os.ErrClosed):
				return
			case err != nil:
				yield(nil, &Error{Op: "read", Object: "events", Err: err})
				return
			}
			if left > 0 {
				left = max(left-8-(len(record.RawSample)+7)&^7, 0) // with its header, as the ring holds it
			}
			if !yield(record.RawSample, nil) {
				return
			}
		}
	}
}
