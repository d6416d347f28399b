package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/peerdirect/peerdirect/internal/doctor"
	"github.com/peerdirect/peerdirect/internal/inventory"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// run looks once, or watches, and prints what was asked for.
func (o *doctorOptions) run(cmd *cobra.Command, checks []doctor.Check) error {
	out := cmd.OutOrStdout()
	text := doctor.TextOptions{Width: terminalWidth(out), All: o.all}
	_, text.Colour = terminal(out)
	switch {
	case o.list && o.json:
		return doctor.WriteListJSON(out, checks)
	case o.list:
		return doctor.WriteList(out, checks, text)
	}
	var root fs.FS
	err := interruptible(cmd.Context(), func() (err error) {
		root, err = o.open(cmd.InOrStdin())
		return err
	})
	if err != nil {
		return err
	}
	if o.watch {
		return o.follow(cmd.Context(), root, checks, out, text)
	}
	began, over := progress(cmd.ErrOrStderr())
	each := func(doctor.Checked) error { return nil }
	printer := doctor.NewText(out, text)
	if !o.json && !o.fix {
		each = func(c doctor.Checked) error { over(); return printer.Add(c) }
	}
	r, err := doctor.Look(cmd.Context(), o.system(root), o.source.String(), checks, began, each)
	over()
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	case err != nil:
		return err
	case o.json:
		err = doctor.WriteJSON(out, r, o.exit(r))
	case o.fix:
		err = doctor.WriteFix(out, r)
	default:
		err = printer.End(r)
	}
	if err != nil {
		return err
	}
	return o.status(r)
}

// open gives the root, in which there is a machine with what was asked for.
func (o *doctorOptions) open(stdin io.Reader) (fs.FS, error) {
	root, err := o.source.open(stdin)
	if err != nil {
		return nil, err
	}
	has := func(name string) bool { _, err := fs.Stat(root, name); return err == nil }
	if !has("sys") && !has("proc") {
		return nil, fmt.Errorf("%s: there is neither sys nor proc in it; name the folder that holds them, or a capture", o.source)
	}
	if o.pid != 0 && !has("proc/"+strconv.Itoa(o.pid)) {
		return nil, fmt.Errorf("--pid %d: there is no such process in the /proc of %s", o.pid, o.source)
	}
	for _, d := range o.devices {
		if !has("sys/class/infiniband/" + d) {
			return nil, fmt.Errorf("--device %s: %w: it is not in /sys/class/infiniband", d, inventory.ErrNoDevice)
		}
	}
	return root, nil
}

func (o *doctorOptions) system(root fs.FS) *doctor.System {
	s := doctor.NewSystem(root, o.source == "")
	s.PID, s.Devices = o.pid, o.devices
	return s
}

// follow looks until it is interrupted: first all, then what changed.
func (o *doctorOptions) follow(ctx context.Context, root fs.FS, checks []doctor.Check, out io.Writer, text doctor.TextOptions) error {
	var w doctor.Watch
	var last *doctor.Report
	for {
		r, err := doctor.Look(ctx, o.system(root), o.source.String(), checks, func(doctor.Check) {}, func(doctor.Checked) error { return nil })
		if err == nil {
			last = r
			err = o.round(out, w.Next(r, time.Now()), text)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			if last == nil {
				return errors.New("interrupted")
			}
			return o.status(last)
		case <-time.After(o.interval):
		}
	}
}

func (o *doctorOptions) round(out io.Writer, r doctor.Round, text doctor.TextOptions) error {
	switch {
	case o.json:
		return r.WriteJSON(out, o.exit(r.Report))
	case r.Number > 1:
		return r.WriteText(out, text)
	}
	return doctor.WriteText(out, r.Report, text)
}

// exit is the exit code of a report.
func (o *doctorOptions) exit(r *doctor.Report) int {
	worst, cause := r.Worst()
	switch {
	case worst == doctor.Warn && o.strict:
		return exitFailed
	case worst < doctor.Fail:
		return exitOK
	}
	return [...]int{doctor.CauseOther: exitFailed, doctor.CauseNoDevice: exitNoDevice,
		doctor.CausePermission: exitPermission, doctor.CauseUnsupported: exitUnsupported}[cause]
}

// status is the same as an error, which has no message: all is said.
func (o *doctorOptions) status(r *doctor.Report) error {
	if code := o.exit(r); code != exitOK {
		return exitStatus(code)
	}
	return nil
}

// progress shows on a terminal which check is at work; over takes the line away.
func progress(w io.Writer) (began func(doctor.Check), over func()) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func(doctor.Check) {}, func() {}
	}
	return func(c doctor.Check) { fmt.Fprintf(w, "\r\x1b[Kchecking %s", c.Name) }, func() { fmt.Fprint(w, "\r\x1b[K") }
}
