//go:build lab

package engine_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/verbs"
)

// TestEFAEngineMemory moves memory of exporters between two engines of one
// machine, by dma-buf, over the kernel's EFA devices.
func TestEFAEngineMemory(t *testing.T) {
	memoriesMove(t, efaNICs(t))
}

// TestEngineWithoutDMABufs: a NIC whose driver takes no dma-bufs refuses the memory,
// by name, and the engine serves on.
func TestEngineWithoutDMABufs(t *testing.T) {
	device := os.Getenv("PEERDIRECT_DEVICE")
	if device == "" || os.Getenv("PEERDIRECT_EFA") != "" {
		t.Skip("needs a lab guest with rxe or siw, whose drivers take no dma-bufs: lab run --link rxe")
	}
	x, err := transfer.MemoryNamed("udmabuf")
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Available(); err != nil {
		t.Skip("needs an exporter: ", err)
	}
	m, err := x.Allocate(4096)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	e, err := engine.New(engine.Options{Rails: engine.Specs(transfer.RCOptions{Device: device}, transfer.Want{Peers: 2}, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.RegisterMemory(m, 0, 4096); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), device) {
		t.Errorf("udmabuf memory with %s: %v", device, err)
	}
	buf, err := verbs.NewBuffer(4096, verbs.BufferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Close()
	r, err := e.Register(buf.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func memoriesMove(t *testing.T, rails transfer.Opener) {
	exporters := []string{"udmabuf", "heap:system"}
	if a := os.Getenv("PEERDIRECT_ACCELERATORS"); a != "" {
		exporters = append(exporters, strings.Split(a, ",")[0])
	}
	for _, pair := range [][2]int{{0, 0}, {0, 1}, {1, 0}, {0, 2}, {2, 0}, {2, 2}} {
		if max(pair[0], pair[1]) >= len(exporters) {
			continue
		}
		from, to := exporters[pair[0]], exporters[pair[1]]
		use := rails
		if nics, ok := rails.(transfer.NICs); ok && max(pair[0], pair[1]) == 2 {
			use = nics[0] // the accelerator's: it reaches no NIC of another switch
		}
		t.Run(from+" to "+to, func(t *testing.T) { memoryMoves(t, use, from, to) })
	}
}

func memoryMoves(t *testing.T, rails transfer.Opener, from, to string) {
	const size = 1 << 20
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			t.Skip("needs another kernel: ", err)
		case err != nil:
			t.Fatal(err)
		}
	}
	var engines [2]*engine.Engine
	var regions [2]*engine.Region
	var memories [2]dmabuf.Memory
	for i, name := range []string{from, to} {
		x, err := transfer.MemoryNamed(name)
		must(err)
		if err := x.Available(); err != nil {
			t.Skip("needs an exporter: ", err)
		}
		memories[i], err = x.Allocate(size)
		must(err)
		defer memories[i].Close()
		engines[i], err = engine.New(engine.Options{Rails: engine.Specs(rails, transfer.Want{Peers: 2}, 1)})
		must(err)
		defer engines[i].Close()
		regions[i], err = engines[i].RegisterMemory(memories[i], 0, size)
		must(err)
	}
	want, got := make([]byte, size), make([]byte, size)
	fill(want, 3)
	_, err := memories[0].WriteAt(want, 0)
	must(err)
	d, l := engine.Pipe()
	var theirs *engine.Peer
	joined := make(chan error, 1)
	go func() {
		var err error
		theirs, err = engines[1].Connect(ctx, l, false)
		joined <- err
	}()
	mine, err := engines[0].Connect(ctx, d, true)
	must(err)
	must(<-joined)
	must(theirs.Grant("memory", regions[1], engine.Write))
	target, err := mine.Target(ctx, "memory")
	must(err)
	w, err := mine.Write(ctx, engine.Move{Local: regions[0], Remote: target, Segments: []engine.Segment{{Length: size}}, Notify: engine.Counts(1)})
	must(err)
	must(w.Wait(ctx))
	must(theirs.Counter(1).Wait(ctx, 1))
	_, err = memories[1].ReadAt(got, 0)
	must(err)
	if !bytes.Equal(got, want) {
		t.Error("what came differs")
	}
}
