package lab

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"
)

func TestFrames(t *testing.T) {
	var wire bytes.Buffer
	c := &frameConn{r: &wire, w: &wire}
	big := bytes.Repeat([]byte("x"), maxPayload+10)
	if err := c.write(frameStdout, big); err == nil {
		t.Error("a frame beyond the limit was sent")
	}
	if n, err := (frameWriter{c, frameStdout}).Write(big); n != len(big) || err != nil {
		t.Errorf("wrote %d, %v", n, err)
	}
	c.write(frameReady, nil)
	for _, want := range []struct {
		kind frameKind
		size int
	}{{frameStdout, maxPayload}, {frameStdout, 10}, {frameReady, 0}} {
		kind, payload, err := c.read()
		if kind != want.kind || len(payload) != want.size || err != nil {
			t.Errorf("got %q, %d bytes, %v; want %q, %d", kind, len(payload), err, want.kind, want.size)
		}
	}
	if _, _, err := c.read(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("h\x00\x00\x00\x00x\x00\x00\x00\x0c{\"status\":0}"))
	f.Add([]byte("1\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		c := &frameConn{r: bytes.NewReader(stream)}
		for n := 0; ; {
			kind, payload, err := c.read()
			if err != nil {
				return
			}
			if byte(kind) != stream[n] || binary.BigEndian.Uint32(stream[n+1:]) != uint32(len(payload)) ||
				!bytes.Equal(payload, stream[n+5:n+5+len(payload)]) {
				t.Fatalf("kind %q, payload %x out of %x at %d", kind, payload, stream, n)
			}
			n += 5 + len(payload)
		}
	})
}
