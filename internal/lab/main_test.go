package lab

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"testing"
)

// runEnv makes the test binary a process that does one run, as peerdirect would,
// for the tests that interrupt it. It holds the command for the guest's shell.
const runEnv = "PEERDIRECT_LAB_TEST_RUN"

// TestMain lets the test binary be what it tests: process 1 of a guest, and a
// process that runs the lab.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "lab" && os.Args[2] == "guest" {
		Guest()
		os.Exit(1)
	}
	if script := os.Getenv(runEnv); script != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		err := Run(ctx, Options{Command: []string{"sh", "-c", script}, EFA: EFA{Count: 1}, Stdout: os.Stdout, Stderr: os.Stderr})
		fmt.Fprintln(os.Stderr, "ended:", err)
		os.Exit(3)
	}
	os.Exit(m.Run())
}
