package control

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// frame is a header that lies, and what follows it.
func frame(length uint32, t Type, reserved uint16, payload string) []byte {
	b := binary.BigEndian.AppendUint32(nil, length)
	b = binary.BigEndian.AppendUint16(b, uint16(t))
	b = binary.BigEndian.AppendUint16(b, reserved)
	return append(b, payload...)
}

var hostile = map[string]struct {
	say   []byte
	class error
	words []string
}{
	"too long":         {frame(MaxPayload+1, TypeUser, 0, ""), ErrProtocol, []string{"type 16", "1048577 bytes", "1048576"}},
	"longest":          {frame(1<<32-1, TypeUser, 0, ""), ErrProtocol, []string{"4294967295 bytes"}},
	"reserved":         {frame(0, TypeUser, 0x8000, ""), ErrProtocol, []string{"0x8000 where 0 belongs"}},
	"unknown type":     {frame(0, 15, 0, ""), ErrProtocol, []string{"unknown type, 15"}},
	"first unknown":    {frame(0, 3, 0, ""), ErrProtocol, []string{"unknown type, 3"}},
	"a full ping":      {frame(1, typePing, 0, "x"), ErrProtocol, []string{"a ping has 1 bytes"}},
	"a full bye":       {frame(MaxPayload, typeBye, 0, ""), ErrProtocol, []string{"a bye has 1048576 bytes"}},
	"hello again":      {appendHello(nil, time.Second), ErrProtocol, []string{"hello a second time"}},
	"behind a message": {append(frame(1, TypeUser, 0, "m"), frame(0, 9, 0, "")...), ErrProtocol, []string{"unknown type, 9"}},
	"cut in a header":  {frame(0, TypeUser, 0, "")[:5], ErrGone, []string{"without a word"}},
	"cut in a payload": {frame(100, TypeUser, 0, "only this"), ErrGone, []string{"without a word"}},
	"text":             {[]byte("GET / HTTP/1.1\r\n\r\n"), ErrProtocol, []string{"1195725856 bytes"}},
}

// A peer that has proved itself and then breaks the rules.
func TestHostileFrames(t *testing.T) {
	secret := token(t)
	for name, c := range hostile {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			l := listen(t, secret, Options{})
			s, err := prove(soon(t), must(net.Dial("tcp", l.Addr().String())), secret, dialler, must(Options{}.withDefaults()))
			if err != nil {
				t.Fatal(err)
			}
			conn := must(l.Accept(soon(t)))
			s.tls.Write(c.say)
			if c.class == ErrGone {
				s.nc.Close()
			}
			<-conn.Done()
			wants(t, conn.Err(), c.class, append(c.words, conn.RemoteAddr().String())...)
			conn.Close()
			s.nc.Close()
		})
	}
}

// Frames come whole, however the stream is cut.
func TestFramesInPieces(t *testing.T) {
	noLeaks(t)
	secret := token(t)
	l := listen(t, secret, Options{})
	s, err := prove(soon(t), must(net.Dial("tcp", l.Addr().String())), secret, dialler, must(Options{}.withDefaults()))
	if err != nil {
		t.Fatal(err)
	}
	defer s.nc.Close()
	conn := must(l.Accept(soon(t)))
	defer conn.Close()
	sizes := []int{0, 1, readSize - headerSize, 3*readSize + 5, 9}
	for _, piece := range []int{1 << 20, readSize, 1000, 7, 1} {
		var stream []byte
		for _, size := range sizes {
			if piece < 1000 {
				size %= 50
			}
			stream = appendFrame(stream, typePing, nil)
			stream = appendFrame(stream, TypeUser+Type(size%7), bytes.Repeat([]byte{byte(size)}, size))
		}
		for rest := stream; len(rest) > 0; {
			n := min(piece, len(rest))
			if _, err := s.tls.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		for _, size := range sizes {
			if piece < 1000 {
				size %= 50
			}
			typ, p, err := conn.Receive(soon(t))
			if err != nil || typ != TypeUser+Type(size%7) || !bytes.Equal(p, bytes.Repeat([]byte{byte(size)}, size)) {
				t.Fatalf("in pieces of %d: %v of %d bytes where %d were due, %v", piece, typ, len(p), size, err)
			}
		}
	}
}

// A stream that something between the sides has changed.
func TestDamagedStream(t *testing.T) {
	noLeaks(t)
	secret := token(t)
	l := listen(t, secret, Options{})
	s, err := prove(soon(t), must(net.Dial("tcp", l.Addr().String())), secret, dialler, must(Options{}.withDefaults()))
	if err != nil {
		t.Fatal(err)
	}
	conn := must(l.Accept(soon(t)))
	s.nc.Write([]byte("\x17\x03\x03\x00\x20................................"))
	<-conn.Done()
	wants(t, conn.Err(), ErrProtocol, "encrypted stream is damaged", "bad record MAC")
	conn.Close()
	s.nc.Close()
}

func TestHellos(t *testing.T) {
	hello := func(change func(p []byte)) []byte {
		p := appendHello(nil, time.Second)
		change(p[headerSize:])
		return p
	}
	version := func(v uint16) func([]byte) { return func(p []byte) { binary.BigEndian.PutUint16(p[4:], v) } }
	lease := func(ms uint32) func([]byte) { return func(p []byte) { binary.BigEndian.PutUint32(p[8:], ms) } }
	later := append(hello(version(2)), "and what version 2 adds"...)
	binary.BigEndian.PutUint32(later, uint32(len(later)-headerSize))
	secret := token(t)
	for name, c := range map[string]struct {
		say   []byte
		class error
		words []string
	}{
		"another version": {later, ErrVersion, []string{"version 2", "version 1", "same peerdirect"}},
		"version 0":       {hello(version(0)), ErrVersion, []string{"version 0"}},
		"magic":           {hello(func(p []byte) { p[0] = 'X' }), ErrProtocol, []string{"0x58444354", `"PDCT"`}},
		"reserved":        {hello(func(p []byte) { p[7] = 1 }), ErrProtocol, []string{"malformed"}},
		"longer":          {append(frame(13, typeHello, 0, ""), "PDCT\x00\x01\x00\x00\x00\x00\x03\xe8!"...), ErrProtocol, []string{"malformed"}},
		"short":           {frame(4, typeHello, 0, "PDCT"), ErrProtocol, []string{"its hello begins with"}},
		"empty":           {frame(0, typeHello, 0, ""), ErrProtocol, []string{"its hello begins with"}},
		"great":           {frame(maxHello+1, typeHello, 0, ""), ErrProtocol, []string{"hello", "265 bytes"}},
		"a message":       {frame(1, TypeUser, 0, "x"), ErrProtocol, []string{"type 16", "instead of a hello"}},
		"no lease":        {hello(lease(0)), ErrProtocol, []string{"a lease of 0s"}},
		"a short lease":   {hello(lease(9)), ErrProtocol, []string{"9ms", "10ms"}},
		"a great lease":   {hello(lease(1<<32 - 1)), ErrProtocol, []string{"1h0m0s"}},
		"closed":          {nil, ErrGone, []string{"before both sides had proved"}},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			l := listen(t, secret, Options{})
			tc := client(t, l, secret)
			defer tc.Close()
			tc.Write(c.say)
			if c.say == nil {
				tc.NetConn().Close()
			}
			eventually(t, "counted", func() bool { return l.Stats().Refused == 1 })
			wants(t, l.Stats().Last, c.class, c.words...)
		})
	}
}

// FuzzFrame: what is taken is what would be sent, nothing is taken in part, and
// what is refused is refused with a name, as soon as its header is there.
func FuzzFrame(f *testing.F) {
	f.Add([]byte{})
	for _, c := range hostile {
		f.Add(c.say)
	}
	f.Add(appendFrame(appendFrame(nil, typePing, nil), TypeUser, []byte("payload")))
	f.Fuzz(func(t *testing.T, b []byte) {
		typ, payload, size, err := parseFrame(b)
		switch e := new(Error); {
		case err != nil:
			if !errors.As(err, &e) || e.Detail == "" || size != 0 || payload != nil {
				t.Fatalf("%v, size %d, payload %q", err, size, payload)
			}
			if _, _, _, again := parseFrame(b[:headerSize]); again == nil || again.Error() != err.Error() {
				t.Fatalf("%v with its payload, %v without", err, again)
			}
		case size == 0:
			if len(b) >= headerSize || payload != nil {
				t.Fatalf("%d bytes have no header", len(b))
			}
		case payload == nil:
			if size <= len(b) || size > headerSize+MaxPayload {
				t.Fatalf("size %d of %d bytes, and no payload", size, len(b))
			}
		default:
			if again := appendFrame(nil, typ, payload); !bytes.Equal(again, b[:size]) {
				t.Fatalf("%x was read as %x", b[:size], again)
			}
		}
	})
}

func FuzzHello(f *testing.F) {
	f.Add(appendHello(nil, time.Second)[headerSize:])
	f.Add([]byte("PDCT\x00\x02"))
	f.Fuzz(func(t *testing.T, p []byte) {
		lease, err := parseHello(p)
		if err != nil {
			if e := new(Error); !errors.As(err, &e) || e.Detail == "" || strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Fatalf("%v", err)
			}
			return
		}
		if again := appendHello(nil, lease)[headerSize:]; !bytes.Equal(again, p) {
			t.Fatalf("%x was read as %x", p, again)
		}
	})
}
