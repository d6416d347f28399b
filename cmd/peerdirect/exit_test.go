package main

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/peerdirect/peerdirect/internal/inventory"
	"github.com/peerdirect/peerdirect/internal/perf"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/peerdirect/peerdirect/transfer/pages"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, exitOK},
		{errors.New("x"), exitFailed},
		{transfer.ErrCancelled, exitFailed},
		{&perf.TimeoutError{}, exitFailed},
		{exitStatus(77), 77},
		{usageError{errors.New("x")}, exitUsage},
		{&perf.UsageError{Problem: "x"}, exitUsage},
		{&transfer.OptionError{Option: "port", Err: errors.New("none")}, exitUsage},
		{fmt.Errorf("%w 7", inventory.ErrNoPort), exitUsage},
		{&control.Error{Err: control.ErrUsage}, exitUsage},
		{&control.Error{Err: control.ErrPermission}, exitPermission},
		{&control.Error{Err: control.ErrCredentials}, exitFailed},
		{&exchange.RemoteError{Class: exchange.ClassUsage}, exitUsage},
		{fmt.Errorf("opening: %w", syscall.ENODEV), exitNoDevice},
		{&exchange.RemoteError{Class: exchange.ClassNoDevice}, exitNoDevice},
		{&fs.PathError{Err: syscall.EACCES}, exitPermission},
		{&exchange.RemoteError{Class: exchange.ClassPermission}, exitPermission},
		{&perf.LimitError{}, exitUnsupported},
		{&exchange.RemoteError{Class: exchange.ClassUnsupported}, exitUnsupported},
		{&perf.VerifyError{}, exitVerify},
		{&pages.VerifyError{Bad: 1, Pages: 2, First: []int{1}}, exitVerify},
		{&exchange.RemoteError{Class: exchange.ClassVerification}, exitVerify},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%T %v: exit %d, want %d", c.err, c.err, got, c.want)
		}
	}
}
