package vfiouser

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// Device is a PCI function to serve. Calls come from one goroutine, one at a
// time. They should return soon: the guest's processor waits in most of them,
// and QEMU gives up on a server that has not answered for five seconds.
type Device interface {
	// Region gives a region's size in bytes, by VFIO's index, 0 for one that
	// the device lacks. It never changes.
	Region(index int) uint64
	// Interrupts gives how many vectors an interrupt type has, by VFIO's index.
	// It never changes.
	Interrupts(index int) int
	// ReadRegion fills p with what lies at offset of a region, and WriteRegion
	// writes p there. The range is within the region. An error that wraps a
	// [syscall.Errno] reaches the client as that, any other as EIO.
	ReadRegion(index int, offset uint64, p []byte) error
	WriteRegion(index int, offset uint64, p []byte) error
	// Reset puts the device into the state after power-on: on the client's
	// request, and when a client has gone. When it returns, the device does
	// not reach for memory any more until it is told to anew.
	Reset()
}

// Mapper is a device of which the client may map regions, to reach them without
// a message. Whatever is mapped the client still may access by messages.
type Mapper interface {
	Device
	// MapRegion gives the file that holds a region from offset 0 on, nil if it
	// is not to be mapped, and the parts of it that may be, all of it if there
	// are none. It never changes.
	MapRegion(index int) (*os.File, []Area)
}

// Area is a part of a region, in bytes; both are multiples of the page size.
type Area struct{ Offset, Size uint64 }

// Options of a server. The zero value is fine.
type Options struct {
	// Report is told why a client's connection ended, unless the client just
	// went: a [*ProtocolError] or an error of the socket.
	Report func(error)
	// Marked is asked about every file that the client shares memory by, as
	// fstat(2) names it; [Memory.Marked] then tells whether an address lies in
	// one that it knows.
	Marked func(dev, ino uint64) bool
}

// Server gives one device to one client after the other. Its memory and
// interrupts are there as long as the server is, whether a client is or not.
type Server struct {
	options    Options
	memory     Memory
	interrupts interrupts
}

// NewServer gives a server that has nothing to serve yet.
func NewServer(o Options) *Server {
	return &Server{options: o, memory: Memory{known: o.Marked}}
}

// Memory gives the client's memory.
func (s *Server) Memory() *Memory { return &s.memory }

// Interrupt sends an interrupt of a type, by VFIO's index, to the client: one
// system call that does not block. Without a client, or if the client has not
// asked for the vector, nothing happens. It may be called by any goroutine.
func (s *Server) Interrupt(index, vector int) { s.interrupts.fire(index, vector) }

// MSIX sends the interrupt of an MSI-X vector.
func (s *Server) MSIX(vector int) { s.interrupts.fire(InterruptMSIX, vector) }

// Serve serves the device to clients that connect to l, one at a time; others
// wait. When a client has gone, however it went, the device is reset, its
// client's memory is unmapped and all descriptors are closed, and the next may
// come. Serve returns when ctx ends, with its error, or when l fails. It closes l.
// A server serves once at a time.
func (s *Server) Serve(ctx context.Context, l *net.UnixListener, d Device) error {
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		conn, err := l.AcceptUnix()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				conn.Close()
			}
			return ctx.Err()
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ECONNABORTED):
			// Others of this process may free descriptors.
			s.report(fmt.Errorf("vfio-user: accepting a client: %w", err))
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		case err != nil:
			return fmt.Errorf("vfio-user: accepting a client: %w", err)
		}
		if err := s.ServeConn(ctx, conn, d); err != nil && ctx.Err() == nil {
			s.report(err)
		}
	}
}

func (s *Server) report(err error) {
	if s.options.Report != nil {
		s.options.Report(err)
	}
}

// ServeConn serves the device to the client at the other end of conn until it
// goes, which gives nil, or breaks the protocol, or ctx ends. It closes conn and
// leaves the device reset.
func (s *Server) ServeConn(ctx context.Context, conn *net.UnixConn, d Device) error {
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	err := newSession(s, conn, d).run()
	conn.Close()
	// First the device stops, then what it would reach for goes.
	d.Reset()
	s.interrupts.clearAll()
	s.memory.clear()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
