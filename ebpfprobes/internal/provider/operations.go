package provider

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Role is what a function does.
type Role string

const (
	PollCQ   Role = "poll_cq"
	PostSend Role = "post_send"
	PostRecv Role = "post_recv"
	// Of extended completion queues (struct ibv_cq_ex).
	StartPoll Role = "start_poll"
	NextPoll  Role = "next_poll"
	EndPoll   Role = "end_poll"
	// ReadOpcode is asked of the completion at hand.
	ReadOpcode Role = "read_opcode"
	// Of extended queue pairs (struct ibv_qp_ex).
	WRComplete Role = "wr_complete"
)

// Operations are addresses of functions in the library, by what they do. A provider
// may have several for one role, of which it chooses by the device or the queue.
type Operations map[Role][]uint64

// Add adds a function, in order and once.
func (o Operations) Add(r Role, function uint64) {
	if !slices.Contains(o[r], function) {
		o[r] = append(o[r], function)
		slices.Sort(o[r])
	}
}

// filled are the names that every provider's table has. What moves data may be in
// smaller tables besides it, one for each generation of the device.
var filled = []string{
	"alloc_pd", "dealloc_pd", "create_cq", "create_qp", "reg_mr", "dereg_mr", "query_port",
}

// Operations finds the functions in the library's file: by the table that it hands to
// libibverbs, which is known by its shape. The functions of extended queues are found
// where they stand in a table too (mlx5); where code sets them one by one (efa), only
// a live process tells them.
func (l *Library) Operations() (Operations, error) {
	private, ok := l.imports("verbs_set_ops")
	if !ok {
		return nil, fmt.Errorf("%w: the library is no provider of RDMA devices: it does not call verbs_set_ops of libibverbs", ErrUnknown)
	}
	possible := layouts(private)
	if possible == nil {
		return nil, fmt.Errorf("%w: the table's layout of %q is not known; a process that has a device open tells the functions", ErrUnknown, private)
	}
	starts, err := l.references()
	if err != nil {
		return nil, err
	}
	var found Operations
	for _, names := range possible {
		o := l.tables(names, starts)
		switch {
		case len(o) == 0:
		case found != nil && !maps.EqualFunc(found, o, slices.Equal):
			return nil, fmt.Errorf("%w: more than one layout of %s fits the library's table; a process that has a device open tells the functions", ErrUnknown, private)
		default:
			found = o
		}
	}
	if found == nil {
		return nil, fmt.Errorf("%w: nothing in the library looks like the table of %s; a process that has a device open tells the functions", ErrUnknown, private)
	}
	l.pollTables(starts, found)
	return found, nil
}

var errNoTable = errors.New("no table")

// slots reads a table that begins at an address: the functions by their place, 1 for
// one of another library. Anything else in it than functions and nothing is errNoTable.
func (l *Library) slots(start uint64, n int) ([]uint64, error) {
	list := make([]uint64, n)
	for i := range list {
		at := start + 8*uint64(i)
		if target, ok := l.words[at]; ok {
			if !l.isCode(target) {
				return nil, errNoTable
			}
			list[i] = target
			continue
		}
		if l.imported[at] {
			list[i] = 1
			continue
		}
		if v, err := l.word(at); err != nil || v != 0 {
			return nil, errNoTable
		}
	}
	return list, nil
}

// tables takes the functions out of the provider's tables: a whole one, and smaller ones
// that replace what moves data, for a generation of the device (mlx5 has one for
// completions of the newer format, which is what all of today's devices write).
func (l *Library) tables(names []string, starts map[uint64]bool) Operations {
	size := 8 * uint64(len(names))
	found := make(Operations)
	type table struct {
		start uint64
		list  []uint64
	}
	var whole, parts []table
	index := func(name string) int { return slices.Index(names, name) }
	for start := range starts {
		list, err := l.slots(start, len(names))
		switch {
		case err != nil:
		case !slices.ContainsFunc(filled, func(name string) bool { return list[index(name)] == 0 }) && distinct(list):
			whole = append(whole, table{start, list})
		case isPart(names, list):
			parts = append(parts, table{start, list})
		}
	}
	if len(whole) == 0 {
		return nil
	}
	for _, t := range parts {
		// An object before the table would read as a part that reaches into it.
		if !slices.ContainsFunc(whole, func(w table) bool { return t.start < w.start+size && w.start < t.start+size }) {
			whole = append(whole, t)
		}
	}
	for _, t := range whole {
		for _, r := range []Role{PollCQ, PostSend, PostRecv} {
			if f := t.list[index(string(r))]; f > 1 {
				found.Add(r, f)
			}
		}
	}
	if len(found[PollCQ]) == 0 || len(found[PostSend]) == 0 {
		return nil
	}
	return found
}

// distinct tells whether nearly each function has but one place: in tables of another
// sort, which are full as well, they have many.
func distinct(list []uint64) bool {
	again := 0
	seen := make(map[uint64]bool)
	for _, f := range list {
		if f > 1 && seen[f] {
			again++
		}
		seen[f] = true
	}
	return again <= 2
}

// beside are what stands in such smaller tables besides what moves data.
var beside = []string{"async_event", "cq_event", "destroy_qp", "modify_qp", "post_srq_ops", "post_srq_recv", "req_notify_cq"}

// isPart tells whether a table has functions that move data: all of them, or nothing
// else.
func isPart(names []string, list []uint64) bool {
	moves, others := 0, 0
	for i, f := range list {
		switch {
		case f == 0:
		case slices.Contains([]string{"poll_cq", "post_send", "post_recv"}, names[i]):
			moves++
		case slices.Contains(beside, names[i]):
			others++
		default:
			return false
		}
	}
	return moves == 3 || moves > 0 && others == 0
}

// pollTables finds mlx5's table of functions for extended completion queues: rows of
// start_poll, next_poll and end_poll, one for each sort of queue, or empty. There are
// far more ways to start than to end.
func (l *Library) pollTables(starts map[uint64]bool, found Operations) {
	const leastRows = 8
	for start := range starts {
		var rows [][3]uint64
		for at := start; ; at += 24 {
			list, err := l.slots(at, 3)
			if err != nil || at > start && starts[at] {
				break
			}
			if list[0] == 0 && list[1] == 0 && list[2] == 0 {
				if len(rows) == 0 || at-start >= 64*24 {
					break
				}
				continue
			}
			if slices.Min(list) <= 1 {
				break
			}
			rows = append(rows, [3]uint64(list))
		}
		// What follows the table may look like a row of it, but shares nothing with others.
		rows = slices.DeleteFunc(rows, func(r [3]uint64) bool { return times(rows, 1, r[1]) < 2 || times(rows, 2, r[2]) < 2 })
		if len(rows) < leastRows {
			continue
		}
		starting := 0
		for _, r := range rows {
			if times(rows, 0, r[0]) == 1 {
				starting++
			}
		}
		if starting < len(rows)*3/4 {
			continue
		}
		for _, r := range rows {
			found.Add(StartPoll, r[0])
			found.Add(NextPoll, r[1])
			found.Add(EndPoll, r[2])
		}
	}
}

func times(rows [][3]uint64, column int, f uint64) (n int) {
	for _, r := range rows {
		if r[column] == f {
			n++
		}
	}
	return n
}
