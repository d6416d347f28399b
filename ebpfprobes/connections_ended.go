package ebpfprobes

import (
	"sync"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
)

// endedTransitions holds the changes that processes made which are no more.
type endedTransitions struct {
	mu   sync.Mutex                       // over reading the table too: what moves is not to be seen twice
	rows sums[QPTransition, QPTransition] // by changes without their numbers
}

func (e *endedTransitions) add(row QPTransition) {
	row.PID, row.Ended = 0, true
	key := row
	key.Count, key.Sum, key.Longest = 0, 0, 0
	e.rows.nameless = func(k QPTransition) QPTransition { k.Command = ""; return k }
	e.rows.add = func(sum, more *QPTransition) {
		sum.Count += more.Count
		sum.Sum += more.Sum
		sum.Longest = max(sum.Longest, more.Longest)
	}
	e.rows.take(key, &row)
}

func (e *endedTransitions) list() (rows []QPTransition) {
	e.rows.each(func(key QPTransition, sum *QPTransition) {
		key.Count, key.Sum, key.Longest = sum.Count, sum.Sum, sum.Longest
		rows = append(rows, key)
	})
	return rows
}

// retire moves the changes by processes that have ended out of the kernel's table.
func (s *ConnectionSession) retire(rows []QPTransition) error {
	gone := departedOf(rows, func(r *QPTransition) int { return r.PID })
	names, err := s.tableNames()
	if err != nil {
		return err
	}
	if err := moveOut(s.maps["transitions"], func(k objects.ConnectionsTransitionKey, _ *objects.ConnectionsTransition) bool {
		return gone[k.Tgid]
	},
		func(k objects.ConnectionsTransitionKey, t *objects.ConnectionsTransition) {
			s.ended.add(names.transition(&k, t))
		}); err != nil {
		return err
	}
	return gone.forget(s.maps["processes"])
}

// retirePairs forgets queue pairs whose makers have ended: most are no more, and their
// ends were missed. One whose descriptor another process holds is found again at its next
// change.
func (s *ConnectionSession) retirePairs(pairs []QP) error {
	gone := departedOf(pairs, func(q *QP) int { return q.PID })
	return moveOut(s.maps["pairs"], func(_ uint64, p *objects.ConnectionsPair) bool { return p.Kernel == 0 && gone[p.Tgid] },
		func(uint64, *objects.ConnectionsPair) {})
}
