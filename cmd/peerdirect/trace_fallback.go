package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"strings"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// registrationSession follows registrations, by whatever can be attached.
type registrationSession interface {
	traceSession
	Rows() ([]ebpfprobes.RegistrationRow, error)
	Failures() ([]ebpfprobes.RegistrationFailure, error)
	Events(ctx context.Context) iter.Seq2[ebpfprobes.Registration, error]
	Close() error
}

// bySyscallsOnly is what is missing where system calls alone are followed.
const bySyscallsOnly = "whole calls with errno and length, no phases, no causes, no stacks; what the kernel deregisters at a process's end is not seen"

// openRegistrations attaches to functions of the kernel, or, if that cannot be or is not
// wanted, to system calls alone, and then tells so.
func openRegistrations(f ebpfprobes.Filter, bySyscalls bool) (s registrationSession, notice string, err error) {
	if bySyscalls {
		s, err := ebpfprobes.RegistrationsBySyscalls(f)
		if err != nil {
			return nil, "", err
		}
		return s, "only system calls are followed, as asked for: " + bySyscallsOnly, nil
	}
	full, err := ebpfprobes.Registrations(f)
	if err == nil {
		return full, "", nil
	}
	// Lockdown takes system calls away too. Where nothing can be registered there is nothing
	// to fall back for: the error tells which module to load.
	if errors.Is(err, ebpfprobes.ErrLocked) {
		return nil, "", err
	}
	if _, missing := os.Stat("/sys/class/infiniband_verbs"); errors.Is(missing, fs.ErrNotExist) {
		return nil, "", err
	}
	fallback, ferr := ebpfprobes.RegistrationsBySyscalls(f)
	switch {
	case ferr == nil:
		return fallback, fmt.Sprintf("only system calls are followed: %s; for want of the kernel's functions: %s", bySyscallsOnly, inOneLine(err)), nil
	case errors.Is(ferr, fs.ErrPermission) && errors.Is(err, fs.ErrPermission):
		return nil, "", err
	}
	return nil, "", fmt.Errorf("%w; nor by system calls alone: %s", err, inOneLine(ferr))
}

// inOneLine is an error in one line.
func inOneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
