package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// Run boots the guests, runs the command in all of them once all are up, and
// ends them. It builds the roots that are missing. It gives nil if every
// command exited with 0, and else an *[ExitError], a *[GuestError], ctx's error
// or what kept the lab from running. Nothing of the run is left when it
// returns, save the logs with Options.Keep.
func Run(ctx context.Context, o Options) error {
	if err := o.Check(); err != nil {
		return err
	}
	if err := o.setDefaults(); err != nil {
		return err
	}
	qemu, err := qemuRoot(ctx, o.Log)
	if err != nil {
		return err
	}
	defer qemu.Close()
	guestRoot, _, err := openRoot(ctx, o.Kernel, o.Log)
	if err != nil {
		return err
	}
	defer guestRoot.Close()
	if o.Accel, err = chooseAccel(ctx, o.Accel, qemu, guestRoot, o.Log); err != nil {
		return err
	}

	var module *entry
	if o.Accelerators.Count > 0 {
		if module, err = openModule(ctx, guestRoot, o.Log); err != nil {
			return err
		}
		defer module.Close()
	}
	var layer *entry
	if o.Layer.Name != "" {
		if layer, err = openLayer(ctx, o.Layer, o.Log); err != nil {
			return err
		}
		defer layer.Close()
	}

	var logs string
	if o.Keep {
		if logs, err = os.MkdirTemp("", "peerdirect-lab-"); err != nil {
			return err
		}
		defer fmt.Fprintf(o.Log, "lab: the guests' kernel logs are in %s\n", logs)
	}
	for _, limit := range bootLimits {
		r := newRun(o, qemu, guestRoot)
		r.module, r.layer, r.logs = module, layer, logs
		r.bootLimit = limit + time.Duration(o.Nodes)*(10*time.Second+time.Duration(o.EFA.Count)*efaWaitEach)
		var stuck *bootError
		if err = r.run(ctx); !errors.As(err, &stuck) {
			return err
		}
		fmt.Fprintf(o.Log, "lab: not every node was up after %s\n", r.bootLimit)
	}
	return err
}

func newRun(o Options, qemu, guest *root) *labRun {
	r := &labRun{Options: o, qemu: qemu, root: guest, events: make(chan event), stopped: make(chan struct{}), bootLimit: time.Hour}
	r.Log = r.out.plain(o.Log) // often the same as Stderr
	return r
}

// qemuRoot gives the root whose QEMU runs the guests of every kernel.
func qemuRoot(ctx context.Context, log io.Writer) (*root, error) {
	k, err := KernelBySeries(DefaultKernel)
	if err != nil {
		return nil, err
	}
	r, _, err := openRoot(ctx, k, log)
	return r, err
}

// labRun is one run: guests, each with goroutines that read what it says, and
// one loop that decides.
type labRun struct {
	Options
	qemu, root   *root
	module       *entry // the accelerators' driver, nil for none
	layer        *entry // nil for none
	logs         string
	accelerators *acceleratorMemory // nil for none
	efa          *efaServers        // nil for none
	bootLimit    time.Duration      // until all are ready
	guests       []*guest
	conns        []*frameConn
	out          prefixer
	events       chan event
	stopped      chan struct{} // closed once nobody takes events
	readers      sync.WaitGroup
}

// event is what a guest's reader tells the loop.
type event struct {
	node   int
	kind   frameKind // hello, ready, failed or exit, or gone
	text   string    // of failed and gone: why
	status int       // of exit
}

// gone is the kind of an event that no frame brought: nothing comes any more.
const gone frameKind = 0

func (r *labRun) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, errTimeout)
	defer cancel()
	link := newEtherSwitch()
	defer func() {
		close(r.stopped)
		for _, g := range r.guests {
			g.kill()
		}
		r.readers.Wait()
		r.efa.close()
		r.accelerators.close()
		r.out.flush()
	}()
	var err error
	if r.accelerators, err = r.Accelerators.allocate(r.Nodes); err != nil {
		return err
	}
	if r.EFA.Count > 0 {
		if r.efa, err = r.EFA.serve(r.Nodes, r.accelerators, r.Log); err != nil {
			return err
		}
	}
	for node := range r.Nodes {
		g, err := r.boot(node)
		if err != nil {
			return err
		}
		conn := &frameConn{r: g.control, w: g.control}
		r.guests, r.conns = append(r.guests, g), append(r.conns, conn)
		stdout, stderr := r.out.lines(node, r.Nodes, r.Stdout), r.out.lines(node, r.Nodes, r.Stderr)
		r.readers.Go(func() { r.read(node, conn, stdout, stderr) })
		r.readers.Go(func() {
			dropped, err := link.serve(g.link)
			if err != nil {
				fmt.Fprintf(r.Log, "lab: node%d: its link is cut: %v\n", node, err)
			}
			if dropped > 0 {
				fmt.Fprintf(r.Log, "lab: node%d: too slow for %d frames on its link\n", node, dropped)
			}
		})
	}
	return r.decide(ctx)
}

// decide follows the guests until all have ended, or until it is certain that
// they will not end well.
func (r *labRun) decide(ctx context.Context) error {
	var (
		state  = make([]frameKind, r.Nodes) // the last thing each said
		ready  int
		ended  int
		first  error            // the first failure
		enough <-chan time.Time // the others have had their grace
		late   = time.After(r.bootLimit)
	)
	for ended < r.Nodes {
		select {
		case e := <-r.events:
			if e.kind != gone && !strings.ContainsRune(followedBy[state[e.node]], rune(e.kind)) {
				e = event{node: e.node, text: fmt.Sprintf("it sent a frame of kind %q after %q", byte(e.kind), byte(state[e.node]))}
			}
			if e.kind == gone && first != nil {
				e.kind, e.status = frameExit, 1 // pulled down with the first, likely
				fmt.Fprintf(r.Log, "lab: %v\n", r.guestError(e.node, e.text))
			}
			state[e.node] = e.kind
			switch e.kind {
			case frameHello:
				r.conns[e.node].writeJSON(frameSetup, r.setup(e.node)) // a guest that is gone says so itself
			case frameReady:
				if ready++; ready == r.Nodes {
					r.start()
				}
			case frameExit:
				ended++
				if e.status != 0 && first == nil {
					first = &ExitError{Node: e.node, Status: e.status}
					enough = time.After(grace)
				}
			case frameFailed, gone:
				return r.guestError(e.node, e.text)
			}
		case <-enough:
			for node, kind := range state {
				if kind != frameExit {
					fmt.Fprintf(r.Log, "lab: node%d is ended, %s after the first failure\n", node, grace)
				}
			}
			return first
		case <-late:
			if ready < r.Nodes {
				return &bootError{r.lateError(state)}
			}
		case <-ctx.Done():
			if cause := context.Cause(ctx); cause != errTimeout {
				return cause
			}
			if first != nil {
				return first
			}
			return r.timeoutError(state)
		}
	}
	return first
}

func (r *labRun) start() {
	for _, c := range r.conns {
		c.write(frameStart, nil)
	}
	if r.Terminal != nil {
		go r.forwardTerminal()
	}
}

// read turns what a guest sends into output and events.
func (r *labRun) read(node int, conn *frameConn, stdout, stderr io.Writer) {
	for {
		kind, payload, err := conn.read()
		e := event{node: node, kind: kind}
		switch {
		case err != nil:
			e.kind, e.text = gone, "the guest died"
			if err != io.EOF && !isClosed(err) {
				e.text = err.Error()
			}
		case kind == frameStdout:
			stdout.Write(payload)
			continue
		case kind == frameStderr:
			stderr.Write(payload)
			continue
		case kind == frameHello, kind == frameReady:
		case kind == frameFailed:
			e.text = string(payload)
		case kind == frameExit:
			var exit guestExit
			if err := json.Unmarshal(payload, &exit); err != nil || exit.Status < 0 || exit.Status > 255 {
				e.kind, e.text = gone, fmt.Sprintf("it sent an exit status that is none: %.100q", payload)
			}
			e.status = exit.Status
		default:
			e.kind, e.text = gone, fmt.Sprintf("it sent a frame of unknown kind %q", byte(kind))
		}
		select {
		case r.events <- e:
		case <-r.stopped:
			return
		}
		if e.kind == gone || e.kind == frameExit || e.kind == frameFailed {
			return
		}
	}
}

// forwardTerminal passes on what is typed, until the end of it: a read from a
// terminal cannot be cut short, so it may outlive the run.
func (r *labRun) forwardTerminal() {
	conn := r.conns[0]
	go func() {
		for {
			select {
			case w := <-r.Terminal.Resize:
				conn.writeJSON(frameResize, windowSize{Rows: uint16(w[0]), Cols: uint16(w[1])})
			case <-r.stopped:
				return
			}
		}
	}()
	io.Copy(frameWriter{conn, frameStdin}, r.Terminal.Input)
	conn.write(frameStdin, nil)
}

const (
	// consoleLines of a guest's kernel log are shown when it is the guest that
	// failed.
	consoleLines = 25
)
