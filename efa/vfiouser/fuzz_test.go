package vfiouser

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fuzzDevice has regions like a real function's, and reaches for the client's
// memory wherever the fuzzer writes to: what an emulated device does with an
// address from its guest.
type fuzzDevice struct{ *Server }

func (fuzzDevice) Region(index int) uint64 {
	return [numRegions]uint64{0x4000, 0, 1 << 16, 0, 0x1000, 0, 0, 4096, 0}[index]
}

func (fuzzDevice) Interrupts(index int) int {
	return [numInterrupts]int{0, 0, 8, 0, 0}[index]
}

func (fuzzDevice) ReadRegion(_ int, _ uint64, p []byte) error {
	clear(p)
	return nil
}

func (d fuzzDevice) WriteRegion(_ int, offset uint64, p []byte) error {
	m := d.Memory()
	m.Lock()
	defer m.Unlock()
	addr := offset
	for i, v := range p {
		addr ^= uint64(v) << (8 * (i % 8))
	}
	for i := range m.Bytes(addr, pageSize) {
		m.Bytes(addr, pageSize)[i] = byte(offset)
	}
	d.MSIX(int(offset % 16))
	return nil
}

func (fuzzDevice) Reset() {}

// FuzzMessages sends bytes of the fuzzer's to a server, each message whole or cut
// and with a descriptor of a small file if the flags' upper bits ask for it. The
// server must answer or end the connection, close every descriptor, and leave
// alone what the client has not mapped: the canary pages around the file's middle.
func FuzzMessages(f *testing.F) {
	seed := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	message := func(cmd Command, flags uint32, body []byte) []byte {
		h := header{command: cmd, size: uint32(headerSize + len(body)), flags: flags}
		b := make([]byte, headerSize)
		h.encode(b)
		return append(b, body...)
	}
	hello := message(CmdVersion, 0, versionBody(0, 0, `{"capabilities":{"max_msg_fds":8}}`))
	const withFile = 1 << 31
	f.Add(hello)
	f.Add(seed(hello, message(CmdGetInfo, 0, words(infoSize, 0, 0, 0)), message(CmdReset, 0, nil)))
	f.Add(seed(hello, message(CmdGetRegionInfo, 0, words(32, 0, 0, 0, uint64(0), uint64(0)))))
	f.Add(seed(hello, message(CmdDMAMap, withFile, mapBody(3, fuzzOffset, 0, fuzzSize)),
		message(CmdRegionWrite, flagNoReply, accessBody(0, 0, 8, make([]byte, 8)...)),
		message(CmdDMAUnmap, 0, unmapBody(0, 0, fuzzSize))))
	f.Add(seed(hello, message(CmdDMAMap, withFile, mapBody(3, fuzzOffset, 0, fuzzSize)), message(CmdDMAUnmap, 0, unmapBody(2, 0, 0))))
	f.Add(seed(hello, message(CmdSetIRQs, withFile, words(20, 36, 2, 0, 1)), message(CmdRegionRead, 0, accessBody(7, 0, 64)),
		message(CmdSetIRQs, 0, words(20, 33, 2, 0, 0))))
	f.Add(seed(hello, message(CmdWriteMulti, 0, words(uint64(1), accessBody(0, 4, 4, make([]byte, 8)...)))))

	// The file's middle is all that maps may show; the rest is the canary.
	file := memfd(f, fuzzOffset+fuzzSize+fuzzOffset)
	canary := bytes.Repeat([]byte{0xa5}, fuzzOffset)
	for _, at := range []int64{0, fuzzOffset + fuzzSize} {
		if _, err := file.WriteAt(canary, at); err != nil {
			f.Fatal(err)
		}
	}

	f.Fuzz(func(t *testing.T, data []byte) {
		s := NewServer(Options{})
		ours, theirs := pair(t)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		done := make(chan error, 1)
		before := descriptors(t)
		go func() { done <- s.ServeConn(ctx, theirs, fuzzDevice{s}) }()
		go io.Copy(io.Discard, ours) // the replies
		fuzzSend(ours, data, int(file.Fd()))
		ours.CloseWrite()
		if err := <-done; err != nil && ctx.Err() != nil {
			t.Fatalf("the server hangs: %v", err)
		}
		ours.Close()
		if len(s.memory.maps) != 0 {
			t.Errorf("%d maps are left", len(s.memory.maps))
		}
		// Both ends of the connection are closed now too. The collector of
		// replies lets go of its end a little later.
		for end := time.Now().Add(patience); descriptors(t) != before-2; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d descriptors are open, want %d", descriptors(t), before-2)
			}
		}
		got := make([]byte, fuzzOffset)
		for _, at := range []int64{0, fuzzOffset + fuzzSize} {
			if _, err := file.ReadAt(got, at); err != nil || !bytes.Equal(got, canary) {
				t.Fatalf("memory that was never mapped has changed (%v)", err)
			}
		}
	})
}

const (
	fuzzOffset = 2 * pageSize
	fuzzSize   = 4 * pageSize
)

// fuzzSend sends data message by message, as long as its headers make sense. A
// header's top flag asks for the descriptor and is not sent; the map of it is
// bent to the file's middle, since a client may well map all of its own file.
func fuzzSend(conn *net.UnixConn, data []byte, fd int) {
	for len(data) >= headerSize {
		var h header
		h.decode(data)
		n := min(max(int(h.size), headerSize), len(data))
		msg := bytes.Clone(data[:n])
		data = data[n:]
		var rights []byte
		if h.flags>>31 == 1 {
			h.flags &^= 1 << 31
			h.encode(msg)
			rights = unix.UnixRights(fd)
			if h.command == CmdDMAMap && len(msg) >= headerSize+dmaMapSize {
				le.PutUint64(msg[headerSize+8:], fuzzOffset+le.Uint64(msg[headerSize+8:])%fuzzSize)
				size := le.Uint64(msg[headerSize+24:])
				if end := le.Uint64(msg[headerSize+8:]) + size; end < size || end > fuzzOffset+fuzzSize {
					le.PutUint64(msg[headerSize+24:], fuzzOffset+fuzzSize-le.Uint64(msg[headerSize+8:]))
				}
			}
		}
		if _, _, err := conn.WriteMsgUnix(msg, rights, nil); err != nil {
			return
		}
	}
	conn.Write(data)
}
