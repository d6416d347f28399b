package ebpfprobes

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/cilium/ebpf"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
)

// ConnectionFilter chooses what a session follows. The zero value is everything.
type ConnectionFilter struct {
	PID    int  // one process; 0 is all but this one
	Events bool // send each change, see ConnectionSession.Events
}

// ConnectionSession follows queue pairs until it is closed.
type ConnectionSession struct {
	session
	ended endedTransitions
}

// Connections begins to follow queue pairs. A driver takes them to the error state
// without a change that can be seen.
func Connections(f ConnectionFilter) (*ConnectionSession, error) {
	set := processConstants(f.PID)
	set["want_events"] = boolByte(f.Events)
	ring := ""
	if f.Events {
		ring = "events"
	}
	s := new(ConnectionSession)
	if err := s.open("connections", connectionPoints, objects.LoadConnections, set, ring); err != nil {
		return nil, err
	}
	if err := s.Attach(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Attach attaches as all sessions do. After Detach the queue pairs that were known are
// forgotten: what became of them meanwhile is not known. Transitions stay.
func (s *ConnectionSession) Attach() error {
	if s.idle() {
		known, err := table(s.maps["pairs"], func(address uint64, _ objects.ConnectionsPair) uint64 { return address })
		if err != nil {
			return &Error{Op: "read", Object: "queue pairs", Err: err}
		}
		for _, address := range known {
			if err := s.maps["pairs"].Delete(address); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return &Error{Op: "empty", Object: "queue pairs", Err: err}
			}
		}
	}
	return s.session.Attach()
}

// Events gives single changes in their order, until the context ends, which is not an
// error. The session was begun with ConnectionFilter.Events.
func (s *ConnectionSession) Events(ctx context.Context) iter.Seq2[QPChange, error] {
	return func(yield func(QPChange, error) bool) {
		for sample, err := range s.samples(ctx) {
			var c QPChange
			if err == nil {
				c, err = s.change(sample)
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

func (s *ConnectionSession) change(sample []byte) (QPChange, error) {
	var e objects.ConnectionsEvent
	if _, err := binary.Decode(sample, binary.NativeEndian, &e); err != nil {
		return QPChange{}, &Error{Op: "read", Object: "event", Err: fmt.Errorf("%d bytes: %w", len(sample), err)}
	}
	return QPChange{
		At: s.at(e.At), PID: int(e.Tgid), TID: int(e.Tid), Command: text(e.Comm[:]), Change: Change(e.Change),
		From: QPState(e.From), To: QPState(e.To), Mask: e.Mask,
		Took: time.Duration(e.Took), Err: syscall.Errno(-e.Error),
		QP: s.pair(&e.Pair, text(e.Name[:])),
	}, nil
}

func (s *ConnectionSession) pair(p *objects.ConnectionsPair, device string) QP {
	q := QP{
		Device: device, Number: p.Number, Type: QPType(p.Type), PID: int(p.Tgid), Command: text(p.Comm[:]),
		Kernel: p.Kernel != 0, State: QPState(p.State), Changes: p.Changes, GIDIndex: p.SgidIndex, Port: p.Port,
	}
	if p.Born != 0 {
		q.Born = s.at(p.Born)
	}
	if p.HasDest != 0 {
		q.RemoteQPN = p.Dest
	}
	if p.HasGid != 0 {
		q.RemoteGID = netip.AddrFrom16(p.Gid)
	}
	if p.Mtu >= 1 && p.Mtu <= 5 { // enum ib_mtu: 256 to 4096
		q.MTU = 128 << p.Mtu
	}
	return q
}

// QPs gives the queue pairs that are alive, as far as the session has seen them, by
// device and number.
func (s *ConnectionSession) QPs() ([]QP, error) {
	devices, err := s.devices()
	if err != nil {
		return nil, err
	}
	read := func() ([]QP, error) {
		return table(s.maps["pairs"], func(_ uint64, p objects.ConnectionsPair) QP { return s.pair(&p, devices[p.Device]) })
	}
	list, err := read()
	if err == nil && halfFull(s.maps["pairs"], len(list)) {
		if err = s.retirePairs(list); err == nil {
			list, err = read()
		}
	}
	if err != nil {
		return nil, &Error{Op: "read", Object: "queue pairs", Err: err}
	}
	slices.SortFunc(list, func(a, b QP) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Number, b.Number))
	})
	return list, nil
}

// Transitions gives what was counted until now, the most frequent first.
func (s *ConnectionSession) Transitions() ([]QPTransition, error) {
	s.ended.mu.Lock()
	defer s.ended.mu.Unlock()
	names, err := s.tableNames()
	if err != nil {
		return nil, err
	}
	read := func() ([]QPTransition, error) {
		list, err := table(s.maps["transitions"], func(k objects.ConnectionsTransitionKey, t objects.ConnectionsTransition) QPTransition {
			return names.transition(&k, &t)
		})
		if err != nil {
			return nil, err
		}
		return list, nameLate(&s.session, list, func(r *QPTransition) (int, *string) { return r.PID, &r.Command })
	}
	list, err := read()
	if err == nil && halfFull(s.maps["transitions"], len(list)) {
		if err = s.retire(list); err == nil {
			list, err = read()
		}
	}
	if err != nil {
		return nil, &Error{Op: "read", Object: "transitions", Err: err}
	}
	list = append(list, s.ended.list()...)
	slices.SortFunc(list, QPTransition.compare)
	return list, nil
}

func (n tableNames) transition(k *objects.ConnectionsTransitionKey, t *objects.ConnectionsTransition) QPTransition {
	return QPTransition{
		PID: int(k.Tgid), Command: n.commands[k.Tgid], Device: n.devices[k.Device], Type: QPType(k.Type),
		Change: Change(k.Change), From: QPState(k.From), To: QPState(k.To), Err: syscall.Errno(-k.Error),
		Count: t.Count, Sum: time.Duration(t.Sum), Longest: time.Duration(t.Longest),
	}
}
