package ebpfprobes

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
)

// Events gives single calls as they end, until the context does, which ends it without an
// error. The session was begun with Filter.Events. What a dma-buf is, is looked up after
// the call: it is what the descriptor is of by then, and unknown if it is closed.
func (s *SyscallSession) Events(ctx context.Context) iter.Seq2[Registration, error] {
	return func(yield func(Registration, error) bool) {
		for sample, err := range s.samples(ctx) {
			var e objects.SyscallsEvent
			if err == nil {
				if _, err = binary.Decode(sample, binary.NativeEndian, &e); err != nil {
					err = &Error{Op: "read", Object: "event", Err: fmt.Errorf("%d bytes: %w", len(sample), err)}
				}
			}
			if err != nil {
				if !yield(Registration{}, err) {
					return
				}
				continue
			}
			s.descriptors.see(e.Context, int(e.Tgid), int(e.Fd))
			device, v := s.descriptors.of(e.Context, e.Sure != 0)
			if v == shown && !yield(s.registration(&e, device), nil) {
				return
			}
		}
	}
}

func (s *SyscallSession) registration(e *objects.SyscallsEvent, device string) Registration {
	r := Registration{
		At:  s.at(e.At),
		PID: int(e.Tgid), TID: int(e.Tid), Command: text(e.Comm[:]), Device: device,
		Operation: Operation(e.Operation), Kind: Kind(e.Kind),
		Length: e.Length, IOVA: e.Iova, LKey: e.Lkey, RKey: e.Rkey,
		Took: time.Duration(e.Took), Err: syscall.Errno(-e.Error),
	}
	r.Spent[Uverbs] = r.Took
	if r.Err != 0 {
		r.CausePhase = UnknownPhase
	}
	if e.Buffer >= 0 {
		r.Exporter, r.Inode, r.BufferSize = bufferOf(int(e.Tgid), int(e.Buffer))
	}
	return r
}

// bufferOf tells what dma-buf a process's descriptor is of; zeros if it is none.
func bufferOf(pid, fd int) (exporter string, inode, size uint64) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/fdinfo/%d", pid, fd))
	if err != nil {
		return "", 0, 0
	}
	defer f.Close()
	return parseBuffer(f)
}

// parseBuffer takes lines "exp_name:	udmabuf", "ino:	7" and "size:	4096" of a
// descriptor's fdinfo (drivers/dma-buf/dma-buf.c, dma_buf_show_fdinfo; fs/proc/fd.c).
func parseBuffer(r io.Reader) (exporter string, inode, size uint64) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimSpace(value)
		switch name {
		case "exp_name":
			exporter = value
		case "ino":
			inode, _ = strconv.ParseUint(value, 10, 64)
		case "size":
			size, _ = strconv.ParseUint(value, 10, 64)
		}
	}
	if exporter == "" {
		return "", 0, 0 // no dma-buf
	}
	return exporter, inode, size
}
