//go:build lab

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/pages"
)

// command runs a command line in the background.
func command(ctx context.Context, args string) (stdout, stderr *bytes.Buffer, code <-chan int) {
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	c := make(chan int, 1)
	go func() { c <- run(ctx, strings.Fields(args), strings.NewReader(""), stdout, stderr) }()
	return stdout, stderr, c
}

// labToken is no secret.
const labToken = "between the lab's machines"

func transferDevice(t *testing.T) (device, addr string) {
	t.Helper()
	t.Setenv(tokenEnv, labToken)
	if device = os.Getenv("PEERDIRECT_DEVICE"); device == "" {
		t.Skip("needs a lab guest with an RDMA device: run make test-lab")
	}
	return device, os.Getenv("PEERDIRECT_ADDR")
}

func TestTransferByCommand(t *testing.T) {
	device, addr := transferDevice(t)
	r := transferByCommand(t, device, addr, "")
	if c := r.Conditions; c.Device != device || c.NICs != 1 || c.Memory != "host" || c.PeerMemory != "host" {
		t.Errorf("%+v", c)
	}
	if dmabufs(t) {
		_, stderr, got := execute(t.Context(), "transfer to --memory udmabuf -d "+device+" "+addr+":7777")
		if got != exitUnsupported || !strings.Contains(stderr, "--memory host") {
			t.Errorf("a driver that takes no dma-bufs: exit %d: %s", got, stderr)
		}
	}
}

// dmabufs tells whether the guest makes dma-bufs of host memory.
func dmabufs(t *testing.T) bool {
	t.Helper()
	e, err := dmabuf.Open("udmabuf")
	if err == nil {
		err = e.Available()
	}
	if err != nil {
		t.Log("without dma-bufs: ", err)
	}
	return err == nil
}

// TestEFATransferByCommand uses all the guest's EFA devices at once.
func TestEFATransferByCommand(t *testing.T) {
	names := os.Getenv("PEERDIRECT_EFA")
	if names == "" {
		t.Skip("needs a lab guest with EFA devices: lab run --efa N")
	}
	t.Setenv(tokenEnv, labToken)
	if rail, err := transfer.OpenEFA(transfer.EFAOptions{Device: strings.Split(names, ",")[0]}); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("needs RDMA write, which the efa driver of linux 6.1 lacks: ", err)
	} else if err != nil {
		t.Fatal(err)
	} else if err := rail.Close(); err != nil {
		t.Fatal(err)
	}
	r := transferByCommand(t, transfer.EFAName, os.Getenv("PEERDIRECT_ADDR"), "")
	if c := r.Conditions; c.Transport != "EFA SRD" || c.NICs != len(strings.Split(names, ",")) || c.Embedded {
		t.Errorf("%+v", c)
	}
	if dmabufs(t) {
		r := transferByCommand(t, transfer.EFAName, os.Getenv("PEERDIRECT_ADDR"), "--memory udmabuf ")
		if c := r.Conditions; c.Memory != "udmabuf" || c.PeerMemory != "host" {
			t.Errorf("%+v", c)
		}
	}
}

// transferByCommand runs both ends, the sender's with more flags, and gives the
// sender's result.
func transferByCommand(t *testing.T, device, addr, more string) pages.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	received, listenLog, listening := command(ctx, "transfer listen --once --json -d "+device+" --listen "+addr+":7777")
	sent, sendLog, sending := command(ctx, "transfer to "+more+"--json -n 2 --pages 100 --page-size 4K --stride 12K --scatter 9 -d "+device+" "+addr+":7777")
	if a, b := <-sending, <-listening; a != exitOK || b != exitOK {
		t.Fatalf("exit %d and %d\n%s\n%s", a, b, sendLog, listenLog)
	}
	var results [2]pages.Result
	for i, out := range []*bytes.Buffer{sent, received} {
		d := json.NewDecoder(bytes.NewReader(out.Bytes()))
		d.DisallowUnknownFields()
		if err := d.Decode(&results[i]); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		r := results[i]
		if c := r.Conditions; r.Schema != pages.Schema || !r.Verified || r.Pages != 200 || r.Bytes != 200*4096 ||
			c.PageSize != 4096 || c.Stride != 12<<10 || c.Seed != 9 || c.Kernel == "" || c.Transport == "" {
			t.Errorf("%s", out)
		}
	}
	if results[0].Checksum != results[1].Checksum || bytes.Count(received.Bytes(), []byte("\n")) != 1 {
		t.Errorf("%s\n%s", sent, received)
	}
	return results[0]
}

func TestTransferListensUntilInterrupted(t *testing.T) {
	device, addr := transferDevice(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var stdout, stderr lockedBuffer
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"transfer", "listen", "-d", device, "--listen", addr + ":7778", "--max-bytes", "1M"}, strings.NewReader(""), &stdout, &stderr)
	}()
	for end := time.Now().Add(time.Minute); !strings.Contains(stderr.String(), "listening on") && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	for range 2 {
		if got := run(t.Context(), strings.Fields("transfer to --pages 10 "+addr+":7778 -d "+device), strings.NewReader(""), io.Discard, &stderr); got != exitFailed {
			t.Errorf("over the limit: exit %d: %s", got, &stderr)
		}
		if got := run(t.Context(), strings.Fields("transfer to --pages 8 "+addr+":7778 -d "+device), strings.NewReader(""), &stdout, &stderr); got != exitOK {
			t.Errorf("exit %d: %s", got, &stderr)
		}
	}
	interrupt()
	if got := <-code; got != exitOK || strings.Count(stdout.String(), "  verified: ") != 4 || !strings.Contains(stderr.String(), "--max-bytes") {
		t.Errorf("exit %d\n%s\n%s", got, &stdout, &stderr)
	}
	for args, want := range map[string]int{
		"-d nosuch0":                exitNoDevice,
		"-i 7 -d " + device:         exitUsage,
		"-x 7000 -d " + device:      exitUsage,
		"--wait 100ms -d " + device: exitFailed, // nobody listens any more
	} {
		var stderr bytes.Buffer
		if got := run(t.Context(), strings.Fields("transfer to "+addr+":7778 "+args), strings.NewReader(""), io.Discard, &stderr); got != want {
			t.Errorf("%s: exit %d, want %d: %s", args, got, want, &stderr)
		}
	}
}
