package exchange

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func header(mutate func(h []byte)) []byte {
	h := appendHeader(nil, TypeUser, 2, 0)
	mutate(h)
	return append(h, "{}"...)
}

func TestBadFrames(t *testing.T) {
	for name, c := range map[string]struct {
		bytes []byte
		class error
		words []string
	}{
		"version":        {header(func(h []byte) { h[3] = 9 }), ErrVersion, []string{"version 9", "version 1", "same peerdirect"}},
		"version alone":  {[]byte("PDX\x00"), ErrVersion, []string{"version 0"}},
		"flags":          {header(func(h []byte) { h[6] = 0x80 }), ErrProtocol, []string{"flags 0x8000"}},
		"number":         {header(func(h []byte) { h[15] = 7 }), ErrProtocol, []string{"numbered 7"}},
		"length":         {header(func(h []byte) { binary.BigEndian.PutUint32(h[8:], MaxPayload+1) }), ErrProtocol, []string{"1048577 bytes", "1048576"}},
		"greatest":       {header(func(h []byte) { binary.BigEndian.PutUint32(h[8:], 1<<32-1) }), ErrProtocol, []string{"4294967295 bytes"}},
		"type":           {header(func(h []byte) { h[5] = 99 }), ErrProtocol, []string{"another kind", "type 99"}},
		"JSON":           {append(appendHeader(nil, TypeUser, 3, 0), "{,}"...), ErrProtocol, []string{"JSON"}},
		"JSON type":      {append(appendHeader(nil, TypeUser, 9, 0), `{"n":"a"}`...), ErrProtocol, []string{"JSON"}},
		"no JSON":        {appendHeader(nil, TypeUser, 0, 0), ErrProtocol, []string{"JSON"}},
		"error":          {append(appendHeader(nil, typeError, 1, 0), '1'), ErrProtocol, []string{"error that cannot be read"}},
		"second garbage": {append(header(func([]byte) {}), "abcd"...), ErrProtocol, []string{"0x61626364", "frame 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			conn, nc := raw(t)
			nc.Write(c.bytes)
			ctx := within(t, 5*time.Second)
			var m message
			err := conn.Receive(ctx, TypeUser, &m)
			if name == "second garbage" && err == nil {
				err = conn.Receive(ctx, TypeUser, &m)
			}
			wants(t, err, c.class, append(c.words, conn.Peer())...)
		})
	}
}

// Every place where a frame can be cut off.
func TestTruncated(t *testing.T) {
	whole := append(appendHeader(nil, TypeUser, 9, 0), `{"n":123}`...)
	for n := range whole {
		_, err := readFrame(bytes.NewReader(whole[:n]), 0)
		switch {
		case n == 0 && err != io.EOF:
			t.Errorf("no byte: %v", err)
		case n > 0:
			wants(t, err, ErrGone, "in the middle of a frame")
		}
	}
	if f, err := readFrame(bytes.NewReader(whole), 0); err != nil || f.typ != TypeUser || string(f.payload) != `{"n":123}` {
		t.Errorf("whole: %+v, %v", f, err)
	}
}

// Programs of two versions: each names both.
func TestVersions(t *testing.T) {
	c, nc := raw(t)
	nc.Write(header(func(h []byte) { h[3] = 2 }))
	_, err := c.Greet(within(t, 5*time.Second), Hello{Purpose: "perf"})
	wants(t, err, ErrVersion, "version 2", "version 1")
	// The other program reads a header of our version, and so can say the same.
	h := make([]byte, headerSize)
	if _, err := io.ReadFull(nc, h); err != nil || string(h[:4]) != "PDX\x01" {
		t.Errorf("the other version got %q, %v", h, err)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte{}, uint32(0))
	f.Add([]byte("GET / HTTP/1.1\r\n"), uint32(0))
	f.Add(header(func([]byte) {}), uint32(0))
	f.Add(header(func(h []byte) { h[15] = 1; h[8] = 0xff }), uint32(1))
	f.Add(append(appendHeader(nil, typeError, 2, 0), "{}"...), uint32(0))
	f.Fuzz(func(t *testing.T, b []byte, number uint32) {
		r := bytes.NewReader(b)
		fr, err := readFrame(r, number)
		if err != nil {
			var e *Error
			if err != io.EOF && !errors.As(err, &e) {
				t.Fatalf("error without a name: %v", err)
			}
			return
		}
		used := b[:len(b)-r.Len()]
		again := append(appendHeader(nil, fr.typ, len(fr.payload), number), fr.payload...)
		if !bytes.Equal(used, again) || len(fr.payload) > MaxPayload {
			t.Fatalf("%x was read as %x", used, again)
		}
		if fr.typ == typeError {
			if text := remoteError(fr.payload).Error(); strings.ContainsAny(text, "\x1b\n\r\x00") {
				t.Fatalf("error text %q", text)
			}
		}
	})
}
