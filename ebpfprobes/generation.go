package ebpfprobes

import (
	"errors"

	"github.com/cilium/ebpf"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
)

// anew makes the programs forget what was in flight when programs were detached.
func (s *session) anew() error {
	if m := s.maps["pending"]; m != nil { // of completions
		var (
			key   objects.CompletionsPendingKey
			value objects.CompletionsPending
			keys  []objects.CompletionsPendingKey
		)
		all := m.Iterate()
		for all.Next(&key, &value) {
			keys = append(keys, key)
		}
		err := all.Err()
		for _, k := range keys {
			if e := m.Delete(k); e != nil && !errors.Is(e, ebpf.ErrKeyNotExist) {
				err = errors.Join(err, e)
			}
		}
		if err != nil {
			return &Error{Op: "empty", Object: "pending", Err: err}
		}
	}
	return s.raise()
}

// raise makes calls that are in flight lost.
func (s *session) raise() error {
	if s.generation == nil {
		return nil
	}
	var n uint32
	err := s.generation.Get(&n)
	if err == nil {
		err = s.generation.Set(n + 1)
	}
	if err != nil {
		return &Error{Op: "set", Object: "generation", Err: err}
	}
	return nil
}
