package main

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
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

// errVerify marks data that arrived but was not the data that was sent.
var errVerify = errors.New("verification failed")

// exitCode maps an error to the process's exit code. Every package aliases
// its error classes to the standard library's, so one switch serves them all.
func exitCode(err error) int {
	var status exitStatus
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, new(usageError)):
		return exitUsage
	case errors.Is(err, errVerify):
		return exitVerify
	case errors.Is(err, syscall.ENODEV):
		return exitNoDevice
	case errors.Is(err, fs.ErrPermission):
		return exitPermission
	case errors.Is(err, errors.ErrUnsupported):
		return exitUnsupported
	case errors.Is(err, context.Canceled):
		return exitFailed
	}
	return exitFailed
}
