package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/efa/vfiouser"
)

// paths gives the devices' sockets by node, and makes their folder.
func (s *efaServe) paths() ([][]string, error) {
	path, err := filepath.Abs(s.socket)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	folder := err == nil && info.IsDir()
	if s.nodes*s.devices == 1 && !folder {
		return [][]string{{path}}, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = os.Mkdir(path, 0o700)
	}
	if err != nil {
		return nil, err
	}
	all := make([][]string, s.nodes)
	for node := range all {
		for dev := range s.devices {
			all[node] = append(all[node], filepath.Join(path, fmt.Sprintf("node%d-dev%d.sock", node, dev)))
		}
	}
	return all, nil
}

// run serves until parent ends, which is no failure: it was asked for.
func (s *efaServe) run(parent context.Context, stdout, stderr io.Writer) (err error) {
	paths, err := s.paths()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(parent)
	fabric := device.NewFabric(s.fabric)
	defer fabric.Close()
	fabric.Faults().Set(s.faults)
	log := &lineWriter{w: stderr}
	var servers sync.WaitGroup
	defer servers.Wait()
	defer cancel(nil)
	var lines []efaLine
	for node := range paths {
		for i, path := range paths[node] {
			name := fmt.Sprintf("node%d-dev%d", node, i)
			line, serve, err := s.add(fabric, path, name, log)
			if err != nil {
				return err
			}
			line.Node, line.Device = node, i
			lines = append(lines, line)
			servers.Go(func() {
				if err := serve(ctx); err != nil && ctx.Err() == nil {
					cancel(fmt.Errorf("%s: %w", name, err))
				}
			})
		}
	}
	for _, line := range lines {
		if s.json {
			err = json.NewEncoder(stdout).Encode(line)
		} else {
			_, err = fmt.Fprintf(stdout, "%s\t-device '%s'\n", line.Socket, line.QEMU)
		}
		if err != nil {
			return err
		}
	}
	<-ctx.Done()
	if parent.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

// efaLine is what serve tells of a device.
type efaLine struct {
	Schema string `json:"schema"`
	Node   int    `json:"node"`
	Device int    `json:"device"`
	GID    string `json:"gid"`
	Socket string `json:"socket"`
	QEMU   string `json:"qemu_device"` // the value of QEMU's -device
}

// add makes a device that listens at path. serve serves it until its context ends.
func (s *efaServe) add(fabric *device.Fabric, path, name string, log *lineWriter) (line efaLine, serve func(context.Context) error, err error) {
	server := vfiouser.NewServer(vfiouser.Options{Report: func(err error) { log.printf("%s: %v", name, err) }})
	o := s.function
	o.Name, o.Memory, o.Interrupt = name, server.Memory(), server.MSIX
	if s.trace {
		o.Trace = func(t device.AdminTrace) { log.printf("%s: %s", name, adminTrace(t)) }
	}
	function, err := device.NewFunction(fabric, o)
	if err != nil {
		return line, nil, err
	}
	for _, fault := range s.admin {
		function.InjectAdmin(fault)
	}
	listener, err := vfiouser.Listen(path)
	if err != nil {
		function.Close()
		return line, nil, err
	}
	qemu, err := json.Marshal(map[string]any{
		"driver": "vfio-user-pci",
		"socket": map[string]string{"type": "unix", "path": path},
	})
	if err != nil {
		return line, nil, err
	}
	gid := function.Device().GID()
	line = efaLine{Schema: efaSchema, GID: fmt.Sprintf("%x", gid[:]), Socket: path, QEMU: string(qemu)}
	return line, func(ctx context.Context) error {
		defer function.Close()
		return server.Serve(ctx, listener, function)
	}, nil
}

// adminTrace is a line about an admin command.
func adminTrace(t device.AdminTrace) string {
	s := fmt.Sprintf("%s id %d: %s", t.Op, t.ID, t.Status)
	if t.Err != nil {
		s += ": " + t.Err.Error()
	}
	if t.Fault != nil {
		s += " (injected)"
	}
	return s
}

// lineWriter keeps lines of several goroutines whole.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, format+"\n", args...)
}
