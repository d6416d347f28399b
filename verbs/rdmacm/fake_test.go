package rdmacm

import (
	"net/netip"
	"sync"
	"syscall"
)

// fake is a connection manager of one host: ids that listen, connect to each
// other and send events, to one channel or to several. It answers as ucma.c
// does, with an iWARP device or a RoCE one.
type fake struct {
	iwarp bool
	hold  chan struct{} // where set, CONNECT waits for it as TCP may,
	held  func()        // having called this
	taken int           // so many of the next CONNECTs find their port in TCP's hands

	mu    sync.Mutex
	ids   map[uint32]*fakeID
	last  uint32
	files []*fakeFile
}

type fakeID struct {
	file      *fakeFile
	num       uint32
	uid       uint64
	local     netip.AddrPort
	remote    netip.AddrPort
	listening bool
	peer      *fakeID
}

func newFake(iwarp bool) *fake { return &fake{iwarp: iwarp, ids: make(map[uint32]*fakeID)} }

func (f *fake) open() *Channel {
	file := &fakeFile{fake: f, events: make(chan []byte, 8192), closed: make(chan struct{}), broken: make(chan error, 1)}
	f.mu.Lock()
	f.files = append(f.files, file)
	f.mu.Unlock()
	return newChannel(file)
}

// left counts the ids and the open files.
func (f *fake) left() (ids, files int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, file := range f.files {
		select {
		case <-file.closed:
		default:
			files++
		}
	}
	return len(f.ids), files
}

type fakeFile struct {
	fake   *fake
	events chan []byte
	closed chan struct{}
	broken chan error
}

func (f *fakeFile) event(b []byte) error {
	select {
	case ev := <-f.events:
		copy(b, ev)
		return nil
	case err := <-f.broken:
		return err
	case <-f.closed:
		return ErrClosed
	}
}

// close takes along what is left of the file's ids, as the kernel does.
func (f *fakeFile) close() error {
	close(f.closed)
	f.fake.mu.Lock()
	defer f.fake.mu.Unlock()
	for _, id := range f.fake.ids {
		if id.file == f {
			id.destroy()
		}
	}
	return nil
}

func (id *fakeID) destroy() {
	delete(id.file.fake.ids, id.num)
	peer := id.peer
	if peer == nil {
		return
	}
	peer.peer = nil
	if id.uid == 0 {
		peer.send(Event{Type: EventRejected, Status: 28})
	} else {
		peer.send(Event{Type: EventDisconnected})
	}
}

func (id *fakeID) send(ev Event) {
	if id.uid != 0 {
		id.file.events <- encodeEvent(id.uid, id.num, ev)
	}
}

func (f *fakeFile) add(uid uint64) *fakeID {
	f.fake.last++
	id := &fakeID{file: f, num: f.fake.last, uid: uid}
	f.fake.ids[id.num] = id
	return id
}

var fakeHost = netip.MustParseAddr("192.0.2.1")

func (f *fakeFile) run(c command) error {
	select {
	case <-f.closed:
		return ErrClosed
	default:
	}
	k := f.fake
	if c.num == cmdConnect && k.hold != nil {
		k.held()
		<-k.hold
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if c.num == cmdCreateID {
		native.PutUint32(c.answer, f.add(native.Uint64(c.body)).num)
		return nil
	}
	at := map[uint32]int{cmdDestroyID: 8, cmdQuery: 8, cmdInitQPAttr: 8, cmdConnect: connParamSize, cmdAccept: 8 + connParamSize}[c.num]
	id := k.ids[native.Uint32(c.body[at:])]
	if id == nil {
		return syscall.ENOENT
	}
	if id.file != f {
		return syscall.EINVAL
	}
	switch c.num {
	case cmdDestroyID:
		id.destroy()
	case cmdBind:
		addr := sockaddr(c.body[8:])
		if addr.Addr() != fakeHost {
			return syscall.EADDRNOTAVAIL
		}
		if addr.Port() == 0 {
			addr = netip.AddrPortFrom(addr.Addr(), uint16(40000+id.num))
		}
		for _, other := range k.ids {
			if other.local == addr {
				return syscall.EADDRINUSE
			}
		}
		id.local = addr
	case cmdListen:
		id.listening = true
	case cmdResolveAddr:
		id.remote = sockaddr(c.body[16+storageSize:])
		if id.remote.Addr() != fakeHost {
			id.send(Event{Type: EventAddrError, Status: -int32(syscall.ETIMEDOUT)})
			return nil
		}
		id.local = netip.AddrPortFrom(fakeHost, uint16(50000+id.num))
		id.send(Event{Type: EventAddrResolved})
	case cmdResolveRoute:
		id.send(Event{Type: EventRouteResolved})
	case cmdQuery:
		putSockaddr(c.answer[16:], id.local)
		putSockaddr(c.answer[16+storageSize:], id.remote)
		c.answer[8] = 1
		native.PutUint32(c.answer[queryAddrIndex:], 3)
	case cmdInitQPAttr:
		native.PutUint32(c.answer[4:], native.Uint32(c.body[12:]))
		native.PutUint32(c.answer[0:], QPStateBit|QPPKeyIndex)
		if k.iwarp {
			native.PutUint32(c.answer[0:], QPStateBit|QPAccessFlags)
		}
	case cmdConnect:
		if k.taken > 0 {
			k.taken--
			return syscall.EADDRINUSE
		}
		for _, l := range k.ids {
			if l.listening && l.local == id.remote {
				child := l.file.add(0)
				child.local, child.remote = l.local, id.local
				child.peer, id.peer = id, child
				ev := Event{Type: EventConnectRequest, Private: privateOf(c.body), QPN: native.Uint32(c.body)}
				l.file.events <- encodeEvent(l.uid, child.num, ev)
				return nil
			}
		}
		if k.iwarp {
			return syscall.ECONNREFUSED
		}
		id.send(Event{Type: EventRejected, Status: 8})
	case cmdAccept:
		param := c.body[8:]
		if param[connParamSize-1] == 0 { // the connecting side is ready
			if id.peer != nil {
				id.peer.send(Event{Type: EventEstablished})
			}
			return nil
		}
		if id.peer == nil {
			return syscall.EINVAL
		}
		id.uid = native.Uint64(c.body)
		answer := Event{Type: EventConnectResponse, Private: privateOf(param)}
		if k.iwarp {
			answer.Type = EventEstablished
			id.send(Event{Type: EventEstablished})
		}
		id.peer.send(answer)
	case cmdReject:
		if id.peer == nil {
			return syscall.EINVAL
		}
		id.peer.send(Event{Type: EventRejected, Status: 28, Private: append([]byte(nil), c.body[8:8+int(c.body[4])]...)})
		id.peer.peer = nil
		id.peer = nil
	case cmdDisconnect:
		if id.peer == nil {
			return syscall.EINVAL
		}
		for _, end := range []*fakeID{id, id.peer} {
			end.send(Event{Type: EventDisconnected})
		}
	}
	return nil
}

func privateOf(param []byte) []byte {
	return append([]byte(nil), param[8:8+int(param[8+privateSize])]...)
}
