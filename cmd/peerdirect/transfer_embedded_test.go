package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/transfer"
)

// execute runs a command line to its end.
func execute(ctx context.Context, args string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	code = run(ctx, strings.Fields(args), strings.NewReader(""), &out, &errs)
	return out.String(), errs.String(), code
}

func TestTransferBetweenEmbeddedNodes(t *testing.T) {
	stdout, stderr, code := execute(t.Context(), "transfer to --device embedded:nodes=3,nics=2 --pages 50 --page-size 4K -n 2")
	if code != exitOK || stderr != "" || strings.Count(stdout, "  verified: ") != 4 || !strings.Contains(stdout, "efa_0..efa_1 (2 NICs), software inside this process, EFA SRD, direct data path") {
		t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
	}
	stdout, stderr, code = execute(t.Context(), "transfer to --device embedded --pages 50 --page-size 4K --json")
	d := json.NewDecoder(strings.NewReader(stdout))
	d.DisallowUnknownFields()
	for _, role := range []string{transfer.RoleSender, transfer.RoleReceiver} {
		var r transfer.Result
		if err := d.Decode(&r); err != nil || r.Role != role || r.Schema != transfer.Schema || !r.Verified || !r.Conditions.Embedded || r.Bytes != 50*4096 {
			t.Errorf("exit %d: %v\n%s\n%s", code, err, stdout, stderr)
		}
	}
}

// TestWithoutAnyDeviceEmbeddedOnesAreUsed: one line says so.
func TestWithoutAnyDeviceEmbeddedOnesAreUsed(t *testing.T) {
	if transfer.HasDevices(os.DirFS("/")) {
		t.Skip("this machine has an RDMA device")
	}
	stdout, stderr, code := execute(t.Context(), "transfer to --pages 10 --page-size 4K")
	if code != exitOK || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "--device embedded") || strings.Count(stdout, "  verified: ") != 2 {
		t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
	}
}

func TestAnEmbeddedTransferThatIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, stderr, code := execute(ctx, "transfer to --device embedded -n 100000")
	if code != exitFailed || !strings.Contains(stderr, "interrupted") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
