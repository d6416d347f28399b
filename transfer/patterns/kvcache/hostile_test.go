package kvcache

import (
	"context"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/patterns/internal/local"
	"github.com/peerdirect/peerdirect/transfer/patterns/internal/memory"
)

// TestRecords: what is written is read, and what does not fit is refused.
func TestRecords(t *testing.T) {
	s := Shape{Layers: 3, Pages: 10, PageSize: 64, Lanes: 1, MaxPages: 4}
	good := request{id: 1 << 40, cancels: 7, layers: 3, all: 99, pageSize: 64, pages: []uint32{4, 1, 1 << 31, 0}}
	b := good.append(nil)
	if len(b) != s.requestBytes() {
		t.Errorf("%d bytes of %d", len(b), s.requestBytes())
	}
	var read request
	if err := read.parse(b, s); err != nil || !reflect.DeepEqual(read, good) {
		t.Errorf("%+v was read as %+v: %v", good, read, err)
	}
	for name, at := range map[string]int{"layers": 16, "page size": 24, "pages": 32} {
		bad := append([]byte(nil), b...)
		binary.BigEndian.PutUint32(bad[at:], 1<<31)
		if err := read.parse(bad, s); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	e := end{id: 5, told: 2, how: endedFailed, detail: strings.Repeat("x", 300)}
	var heard end
	heard.parse(append(e.append(nil), make([]byte, endBytes)...))
	if e.detail = e.detail[:endDetail]; heard != e {
		t.Errorf("%+v was read as %+v", e, heard)
	}
}

// TestHostilePrefill: a prefill node that says what makes no sense is left: it is not
// known any more what it writes.
func TestHostilePrefill(t *testing.T) {
	s := Shape{Layers: 3, Pages: 10, PageSize: 64, Lanes: 1, MaxPages: 4}
	for name, e := range map[string]end{
		"another request":    {id: 2, told: 3, how: endedDone},
		"too many layers":    {id: 1, told: 4, how: endedCancelled},
		"layers left out":    {id: 1, told: 2, how: endedDone},
		"an end that is not": {id: 1},
		"another such":       {id: 1, how: endedFailed + 1},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			nodes, err := local.New(transfer.EmbeddedOptions{}, engine.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer nodes.Close()
			a, b, err := nodes.Join(ctx, 0, 1)
			if err != nil {
				t.Fatal(err)
			}
			cache, err := memory.Allocate(nodes.Nodes[0], int(s.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			mem, err := memory.Allocate(nodes.Nodes[1], s.Lanes*s.requestBytes())
			if err == nil {
				err = b.Grant(requestsName, mem.Region, engine.Write)
			}
			if err != nil {
				t.Fatal(err)
			}
			d, err := NewDecode(ctx, nodes.Nodes[0], a, cache.Region, s)
			if err != nil {
				t.Fatal(err)
			}
			r, err := d.Start(ctx, []uint32{1})
			if err != nil {
				t.Fatal(err)
			}
			record, err := memory.Allocate(nodes.Nodes[1], endBytes)
			if err != nil {
				t.Fatal(err)
			}
			e.append(record.Bytes[:0])
			ends, err := b.Target(ctx, endsName)
			if err == nil {
				_, err = b.Write(ctx, engine.Move{Local: record.Region, Remote: ends, Segments: []engine.Segment{{Length: endHeader}}, Notify: engine.Counts(s.second(0))})
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Wait(ctx); !errors.Is(err, errProtocol) {
				t.Errorf("its request: %v", err)
			}
			select {
			case <-a.Fenced():
			default:
				t.Error("it was not left")
			}
			if err := errors.Join(d.Close(), cache.Close(), nodes.Close(), record.Close(), mem.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}
