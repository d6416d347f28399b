package path

import (
	"strings"

	"github.com/peerdirect/peerdirect/internal/cuda"
)

type cudaDriver struct{}

func (cudaDriver) start() (int, string, error) {
	if err := cuda.Start(); err != nil {
		return 0, "", err
	}
	n, err := cuda.Devices()
	if err != nil {
		return 0, "", err
	}
	version, err := cuda.DriverVersion()
	return n, version, err
}

func (cudaDriver) open(ordinal int) (gpu, error) {
	d, err := cuda.GetDevice(ordinal)
	if err != nil {
		return nil, err
	}
	ctx, err := d.CreateContext()
	if err != nil {
		return nil, err
	}
	return &cudaGPU{d, ctx}, nil
}

// cudaGPU is a GPU in a context of its own, so that ending that frees whatever
// else of it is left.
type cudaGPU struct {
	d   cuda.Device
	ctx cuda.Context
}

func (g *cudaGPU) facts() (f GPU, err error) {
	if f.Model, err = g.d.Name(); err != nil {
		return f, err
	}
	if f.Address, err = g.d.PCIAddress(); err != nil {
		return f, err
	}
	f.Address = strings.ToLower(f.Address)
	f.Engines, err = g.d.Attribute(cuda.CopyEngines)
	return f, err
}

func (g *cudaGPU) canAccess(peer gpu) (bool, error) { return g.d.CanAccess(peer.(*cudaGPU).d) }

func (g *cudaGPU) link(peer gpu) (rank int, atomics bool, err error) {
	p := peer.(*cudaGPU).d
	if rank, err = g.d.PeerAttribute(cuda.PeerRank, p); err != nil {
		return 0, false, err
	}
	v, err := g.d.PeerAttribute(cuda.PeerAtomics, p)
	return rank, v != 0, err
}

func (g *cudaGPU) enable(peer gpu) error  { return g.ctx.EnablePeer(peer.(*cudaGPU).ctx) }
func (g *cudaGPU) disable(peer gpu) error { return g.ctx.DisablePeer(peer.(*cudaGPU).ctx) }

func (g *cudaGPU) alloc(size uint64) (uint64, error)  { return g.ctx.Alloc(size) }
func (g *cudaGPU) free(p uint64) error                { return g.ctx.Free(p) }
func (g *cudaGPU) pinned(size int) ([]byte, error)    { return g.ctx.AllocPinned(size) }
func (g *cudaGPU) unpinned(b []byte) error            { return g.ctx.FreePinned(b) }
func (g *cudaGPU) toHost(b []byte, from uint64) error { return g.ctx.CopyToHost(b, from) }
func (g *cudaGPU) toDevice(to uint64, b []byte) error { return g.ctx.CopyToDevice(to, b) }
func (g *cudaGPU) close() error                       { return g.ctx.Destroy() }

func (g *cudaGPU) stream() (stream, error) {
	s, err := g.ctx.NewStream()
	return cudaStream{s}, err
}

func (g *cudaGPU) event() (event, error) {
	e, err := g.ctx.NewEvent()
	return cudaEvent{e}, err
}

type cudaStream struct{ s cuda.Stream }

// polls is how often a stream is asked in one call into C: a few microseconds'
// worth, which the crossing is little against, and an interruption nothing.
const polls = 16

func (s cudaStream) done() (bool, error)                      { return s.s.Done(polls) }
func (s cudaStream) wait(e event) error                       { return s.s.Wait(e.(cudaEvent).e) }
func (s cudaStream) fill(p uint64, v byte, size uint64) error { return s.s.Fill(p, v, size) }
func (s cudaStream) toHost(b []byte, from uint64) error       { return s.s.CopyToHost(b, from) }
func (s cudaStream) toDevice(to uint64, b []byte) error       { return s.s.CopyToDevice(to, b) }
func (s cudaStream) close() error                             { return s.s.Destroy() }

func (s cudaStream) toPeer(to uint64, toGPU gpu, from uint64, fromGPU gpu, size uint64) error {
	return s.s.CopyPeer(to, toGPU.(*cudaGPU).ctx, from, fromGPU.(*cudaGPU).ctx, size)
}

type cudaEvent struct{ e cuda.Event }

func (e cudaEvent) record(s stream) error { return e.e.Record(s.(cudaStream).s) }
func (e cudaEvent) close() error          { return e.e.Destroy() }
