package lab

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// etherSwitch joins the guests' network cards: a learning bridge in this
// process, so that the link needs no privilege and reaches nothing outside.
// Each port is one end of a socket pair, QEMU's stream netdev at the other: a
// frame's length in 4 bytes, big endian, then the frame, without checksum.
type etherSwitch struct {
	mu    sync.Mutex
	ports []*switchPort
	seen  map[mac]*switchPort // the port that a source address was seen at
}

type mac [6]byte

func (m mac) group() bool { return m[0]&1 != 0 }

const (
	minEther = 14 // two addresses and a type, bytes
	// maxEther is the most that QEMU sends or takes: NET_BUFSIZE of its
	// net/net.h, 4096 bytes and 64 KiB.
	maxEther = 4096 + 64<<10
	// portQueue frames wait for a guest that does not keep up. RDMA's links are
	// lossless and its transports mind loss, so the queue is long; what does not
	// fit is dropped, lest one guest that hangs stops all.
	portQueue = 4096
	// maxSeen bounds the table of addresses: a guest may make up any number.
	maxSeen = 4096
)

type switchPort struct {
	conn    io.ReadWriteCloser
	out     chan []byte // with length, ready to write; shared between ports, so never written to
	done    chan struct{}
	dropped int // under the switch's lock
}

func newEtherSwitch() *etherSwitch { return &etherSwitch{seen: map[mac]*switchPort{}} }

// serve forwards what comes in at conn, and sends it what the others say, until
// conn is closed or says what is no frame. It closes conn. It gives how many
// frames conn was too slow for, and an error, nil at an orderly end.
func (s *etherSwitch) serve(conn io.ReadWriteCloser) (dropped int, err error) {
	p := &switchPort{conn: conn, out: make(chan []byte, portQueue), done: make(chan struct{})}
	s.mu.Lock()
	s.ports = append(s.ports, p)
	s.mu.Unlock()

	var sender sync.WaitGroup
	sender.Go(p.send)
	err = s.receive(p)
	s.remove(p)
	close(p.done)
	conn.Close()
	sender.Wait()
	return p.dropped, err
}

func (s *etherSwitch) receive(p *switchPort) error {
	r := bufio.NewReaderSize(p.conn, 128<<10)
	for {
		frame, err := readEther(r)
		if errors.Is(err, io.EOF) || isClosed(err) {
			return nil
		}
		if err != nil {
			return err
		}
		s.forward(p, frame)
	}
}

// readEther gives one frame with its length before it.
func readEther(r *bufio.Reader) ([]byte, error) {
	head, err := r.Peek(4)
	if err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head)
	if n > maxEther {
		return nil, fmt.Errorf("an Ethernet frame of %d bytes, more than %d: the stream is out of step", n, maxEther)
	}
	frame := make([]byte, 4+n)
	_, err = io.ReadFull(r, frame)
	return frame, err
}

func (s *etherSwitch) forward(from *switchPort, frame []byte) {
	ether := frame[4:]
	if len(ether) < minEther {
		return // a runt: a switch drops it
	}
	to, source := mac(ether[0:6]), mac(ether[6:12])
	s.mu.Lock()
	defer s.mu.Unlock()
	if !source.group() && (s.seen[source] != nil || len(s.seen) < maxSeen) {
		s.seen[source] = from
	}
	if p := s.seen[to]; p != nil && !to.group() {
		if p != from {
			p.enqueue(frame)
		}
		return
	}
	for _, p := range s.ports {
		if p != from {
			p.enqueue(frame)
		}
	}
}

func (p *switchPort) enqueue(frame []byte) {
	select {
	case p.out <- frame:
	default:
		p.dropped++
	}
}

func (p *switchPort) send() {
	w := bufio.NewWriterSize(p.conn, 128<<10)
	for {
		select {
		case frame := <-p.out:
			if _, err := w.Write(frame); err != nil {
				return
			}
			if len(p.out) == 0 && w.Flush() != nil {
				return
			}
		case <-p.done:
			return
		}
	}
}

func (s *etherSwitch) remove(p *switchPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, q := range s.ports {
		if q == p {
			s.ports = append(s.ports[:i:i], s.ports[i+1:]...)
			break
		}
	}
	for m, q := range s.seen {
		if q == p {
			delete(s.seen, m)
		}
	}
}
