package ebpfprobes

import (
	"errors"

	"github.com/cilium/ebpf"
)

// table reads a hash table, in which what is there all the while is there once.
func table[K, V, R any](m *ebpf.Map, row func(K, V) R) (list []R, err error) {
	const batch = 256
	keys, values := make([]K, batch), make([]V, batch)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&cursor, keys, values, nil)
		for i := range n {
			list = append(list, row(keys[i], values[i]))
		}
		switch {
		case errors.Is(err, ebpf.ErrKeyNotExist):
			return list, nil
		case err != nil:
			return nil, err
		}
	}
}
