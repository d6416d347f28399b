package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/internal/doctor/peer"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// doctorPeer are the flags of doctor's tests of a path: --peer, and --listen on the
// other node.
type doctorPeer struct {
	credentialFlags
	to, listen string
	once       bool
	timeout    time.Duration
	rc         transfer.RCOptions
	gid        int
}

const doctorPeerLong = `doctor --peer ADDRESS tests the path to another node, where doctor --listen
runs, step by step: reach, credentials, match, mtu, keys, connect, small-write,
large-write, order, read, and back, the other direction. The first step that
fails is named, with what both sides saw and a remedy; none is tried behind it.
The two prove themselves to each other as those of 'peerdirect transfer' do. A
listener serves one node after another until it is interrupted, on port ` + peer.DefaultPort + `,
and on the loopback address unless it is given another. The NIC is that of
--device, or software inside this process (--device embedded), the default on a
machine without any. Exit codes are the command's, and 6 if bytes arrive that
were not written.`

const doctorPeerExample = `  head -c 24 /dev/urandom | base64 >token       # known to both nodes
  peerdirect doctor --listen 192.0.2.1 --token-file token
  peerdirect doctor --peer 192.0.2.1 --token-file token`

func (p *doctorPeer) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.to, "peer", "", "test the path to the node at this `address[:port]`, where doctor --listen runs (default none)")
	f.StringVar(&p.listen, "listen", "", "be the other node of --peer, at this `address[:port]`, or on loopback without one (default none)")
	f.Lookup("listen").NoOptDefVal = peer.DefaultAddr
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		f.Lookup("listen").NoOptDefVal = "" // which would be told among the flags' names
		cmd.Root().HelpFunc()(cmd, args)
	})
	f.BoolVar(&p.once, "once", false, "with --listen: end after one test, with its exit code")
	f.DurationVar(&p.timeout, "timeout", 15*time.Second, "how long a step of --peer and --listen may take")
	f.IntVarP(&p.rc.Port, "ib-port", "i", 1, "port of the device, for --peer and --listen")
	f.IntVarP(&p.gid, "gid-index", "x", -1, "index into the port's GID table; -1 chooses, RoCE v2 and IPv4 first")
	p.credentialFlags.register(f)
	p.registerPeer(f)
}

// own are the flags that count for the test of a path alone, others those that do not.
func (p *doctorPeer) own() []string {
	return []string{"once", "timeout", "ib-port", "gid-index", "token", "token-file", "cert", "key", "ca", "peer-name"}
}

func (p *doctorPeer) others() []string {
	return []string{"fix", "list", "only", "skip", "pid", "sysroot", "watch", "interval"}
}

// args takes the address behind --listen as it does that behind --listen=.
func (p *doctorPeer) args(cmd *cobra.Command, args []string) error {
	if len(args) == 1 && cmd.Flags().Changed("listen") && p.listen == peer.DefaultAddr {
		p.listen = args[0]
		return nil
	}
	return noCommand(cmd, args)
}

// asked tells whether a path is to be tested, and which flags do not go with that.
func (p *doctorPeer) asked(f *pflag.FlagSet) (bool, error) {
	wrong, with := p.own(), "--peer or --listen"
	asked := f.Changed("peer") || f.Changed("listen")
	if asked {
		wrong, with = p.others(), "a test of this machine, not of a path"
	}
	for _, name := range wrong {
		if f.Changed(name) {
			return asked, usageError{fmt.Errorf("--%s is for %s", name, with)}
		}
	}
	switch {
	case !asked:
		return false, nil
	case f.Changed("peer") && f.Changed("listen"):
		return true, usageError{errors.New("--peer and --listen are for the two sides of a path: give one")}
	case f.Changed("peer") && p.to == "":
		return true, usageError{errors.New("--peer needs an address")}
	case p.once && p.to != "":
		return true, usageError{errors.New("--once is for --listen")}
	case p.timeout <= 0:
		return true, usageError{fmt.Errorf("--timeout %v: it must be above 0", p.timeout)}
	case p.rc.Port < 1:
		return true, usageError{fmt.Errorf("--ib-port %d: ports are numbered from 1", p.rc.Port)}
	case p.gid < -1:
		return true, usageError{fmt.Errorf("--gid-index %d: indexes begin at 0, and -1 chooses", p.gid)}
	case p.to != "":
		return true, checkAddress("--peer", doctorAddr(p.to))
	}
	return true, checkAddress("--listen", doctorAddr(p.listen))
}

// run tests the path, or is the other side of such tests.
func (p *doctorPeer) run(cmd *cobra.Command, o *doctorOptions) error {
	if p.gid >= 0 {
		p.rc.GIDIndex = &p.gid
	}
	options := peer.Options{Version: version(), Timeout: p.timeout}
	options.Control.Peer = p.name
	var made string
	var err error
	if p.to != "" {
		options.Credentials, err = p.read()
	} else {
		options.Credentials, made, err = p.listening(doctorAddr(p.listen))
	}
	if err != nil {
		return err
	}
	rail, embedded, err := openDevices(strings.Join(o.devices, ","), p.rc, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer embedded.Close()
	options.Rail = rail
	out := cmd.OutOrStdout()
	text := &peer.Text{W: out, Width: terminalWidth(out), All: o.all}
	if p.to == "" {
		return p.serve(cmd.Context(), o, options, made, text, cmd.ErrOrStderr())
	}
	if !o.json {
		options.Tell = func(_ *peer.Result, s *peer.Step) { text.Step(s) }
	}
	r, err := peer.Check(cmd.Context(), doctorAddr(p.to), options)
	return p.ended(r, err, o, text, true)
}

// serve is --listen.
func (p *doctorPeer) serve(ctx context.Context, o *doctorOptions, options peer.Options, made string, text *peer.Text, stderr io.Writer) error {
	options.Warn = func(err error) { fmt.Fprintf(stderr, "peerdirect: %v\n", err) }
	l, err := peer.Listen(ctx, doctorAddr(p.listen), options)
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintf(stderr, "listening on %v\n", l.Addr())
	if made != "" {
		fmt.Fprintf(stderr, "to test the path to here, on this machine: %s=%s peerdirect doctor --peer %v\n", tokenEnv, made, l.Addr())
	}
	if p.once {
		r, err := l.Receive(ctx)
		if r == nil {
			return err
		}
		return p.ended(r, err, o, text, false)
	}
	var interrupted, printing error
	l.Serve(ctx, func(r *peer.Result, err error) {
		status := p.ended(r, err, o, text, false)
		switch {
		case errors.Is(err, peer.ErrCancelled):
			interrupted = status
		case status != nil && !errors.As(status, new(exitStatus)) && printing == nil:
			printing = status
		}
	})
	// Interrupted while nothing went on is the end that was meant.
	return cmp.Or(interrupted, printing)
}

// ended prints a result, and gives the command's status, which has no message where all
// is said. A listener tells of the steps now, each on a line, or of a result in one.
func (p *doctorPeer) ended(r *peer.Result, err error, o *doctorOptions, text *peer.Text, told bool) error {
	var printing error
	switch {
	case o.json:
		e := json.NewEncoder(text.W)
		if told {
			e.SetIndent("", "  ")
		}
		printing = e.Encode(r)
	case !told:
		for i := range r.Steps {
			if r.Steps[i].Verdict != peer.NotReached {
				text.Step(&r.Steps[i])
			}
		}
		fallthrough
	default:
		printing = text.End(r)
	}
	var step *peer.StepError
	switch {
	case printing != nil:
		return printing
	case err == nil && o.strict && r.Verdict == peer.Warn:
		return exitStatus(exitFailed)
	case errors.As(err, &step):
		return exitStatus(exitCode(err))
	}
	return err
}

// doctorAddr adds the default port to an address without one.
func doctorAddr(addr string) string {
	if _, _, err := net.SplitHostPort(addr); err == nil {
		return addr
	}
	return net.JoinHostPort(strings.Trim(addr, "[]"), peer.DefaultPort)
}
