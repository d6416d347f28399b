package main

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/peerdirect/peerdirect/internal/inventory"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// Exit codes, the same for every command; scripts branch on them, so their
// meaning never changes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNoDevice    = 3
	exitPermission  = 4
	exitUnsupported = 5
	exitVerify      = 6
)

// usageError is a mistake on the command line: the remedy is in the help.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitStatus carries the status of a command that ran elsewhere (in the lab)
// out unchanged, without a message of ours: that command has spoken already.
type exitStatus int

func (e exitStatus) Error() string { return "" }

// exitCode maps an error to the process's exit code. Every package has the
// classes of the standard library, and a peer's error those of package exchange,
// so that one switch serves all commands.
func exitCode(err error) int {
	var status exitStatus
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, new(usageError)), errors.Is(err, exchange.ErrUsage), errors.Is(err, control.ErrUsage),
		errors.As(err, new(*transfer.OptionError)), errors.Is(err, inventory.ErrNoPort):
		return exitUsage
	case errors.Is(err, exchange.ErrVerification):
		return exitVerify
	case errors.Is(err, syscall.ENODEV):
		return exitNoDevice
	case errors.Is(err, fs.ErrPermission):
		return exitPermission
	case errors.Is(err, errors.ErrUnsupported):
		return exitUnsupported
	}
	return exitFailed
}
