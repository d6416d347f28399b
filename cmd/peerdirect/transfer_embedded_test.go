package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/pages"
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
	for _, role := range []string{pages.RoleSender, pages.RoleReceiver} {
		var r pages.Result
		if err := d.Decode(&r); err != nil || r.Role != role || r.Schema != pages.Schema || !r.Verified || !r.Conditions.Embedded || r.Bytes != 50*4096 {
			t.Errorf("exit %d: %v\n%s\n%s", code, err, stdout, stderr)
		}
	}
}

// TestWithoutAnyDeviceEmbeddedOnesAreUsed: one line says so.
func TestWithoutAnyDeviceEmbeddedOnesAreUsed(t *testing.T) {
	if transfer.HasDevices(os.DirFS("/")) {
		t.Skip("needs a machine without RDMA devices, as the host of the lab is")
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

// lockedBuffer may be read while a command writes it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// listening runs a listener by command, on a port of its own.
type listening struct {
	stdout, stderr lockedBuffer
	code           chan int
	stop           context.CancelFunc
	at             string
}

func startListening(t *testing.T, args string) *listening {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	l := &listening{code: make(chan int, 1), stop: stop}
	go func() {
		l.code <- run(ctx, strings.Fields("transfer listen --listen 127.0.0.1:0 "+args), strings.NewReader(""), &l.stdout, &l.stderr)
	}()
	l.at = l.await(t, "listening on ")
	return l
}

// await gives what follows a word on standard error, up to the end of its line.
func (l *listening) await(t *testing.T, word string) string {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, rest, ok := strings.Cut(l.stderr.String(), word); ok {
			if line, _, whole := strings.Cut(rest, "\n"); whole {
				return line
			}
		}
	}
	t.Fatalf("the listener does not say %q: %s", word, &l.stderr)
	return ""
}

// TestTransferToListeners, by a token and by certificates, to one and to two at once.
func TestTransferToListeners(t *testing.T) {
	t.Setenv(tokenEnv, "")
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("sixteen-bytes-and-more\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := execute(t.Context(), "cert --out "+dir+"/pki node-a node-b"); code != exitOK {
		t.Fatal(stderr)
	}
	certificate := func(name string) string {
		return fmt.Sprintf("--cert %s/pki/%s.pem --key %s/pki/%s.key --ca %s/pki/authority.pem ", dir, name, dir, name, dir)
	}
	const moved = " -d embedded:nics=2 --pages 60 --page-size 4K"
	for name, c := range map[string]struct{ listen, to, more string }{
		"token":        {"--token-file " + token, "--token-file " + token, ""},
		"read":         {"--token-file " + token, "--token sixteen-bytes-and-more", " --read"},
		"one rail":     {"--token-file " + token, "--token-file " + token, " --rails efa_1 --iterations 3"},
		"certificates": {certificate("node-a"), certificate("node-b") + "--peer-name node-a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := startListening(t, "-d embedded:nics=2 --once --json "+c.listen)
			stdout, stderr, code := execute(t.Context(), "transfer to "+l.at+" --json "+c.to+moved+c.more)
			if code != exitOK || <-l.code != exitOK {
				t.Fatalf("exit %d\n%s\n%s", code, stderr, &l.stderr)
			}
			var sent, received pages.Result
			if err := errors.Join(json.Unmarshal([]byte(stdout), &sent), json.Unmarshal([]byte(l.stdout.String()), &received)); err != nil || !sent.Verified || !received.Verified || sent.Checksum != received.Checksum {
				t.Errorf("%v\n%s\n%s", err, stdout, &l.stdout)
			}
			if peer := sent.Conditions.Peer; name == "certificates" && peer != "node-a" || name == "token" && peer != "token" {
				t.Errorf("the peer is %q", peer)
			}
		})
	}
	t.Run("two", func(t *testing.T) {
		a, b := startListening(t, "-d embedded --token-file "+token), startListening(t, "-d embedded --token-file "+token)
		stdout, stderr, code := execute(t.Context(), "transfer to "+a.at+" --peers "+b.at+" --divide --token-file "+token+moved)
		if code != exitOK || strings.Count(stdout, "  verified: ") != 2 || !strings.Contains(stdout, "2 of 2 receivers verified: 240 KiB") {
			t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
		}
		for _, l := range []*listening{a, b} {
			l.stop()
			if code := <-l.code; code != exitOK || strings.Count(l.stdout.String(), "  verified: ") != 1 {
				t.Errorf("exit %d\n%s\n%s", code, &l.stdout, &l.stderr)
			}
		}
	})
}

// TestAListenerMakesAToken on the loopback address, if it is given none, and shows
// how to use it. Who has another is refused, and the listener's owner is told.
func TestAListenerMakesAToken(t *testing.T) {
	t.Setenv(tokenEnv, "")
	l := startListening(t, "-d embedded --max-bytes 1M")
	token, _, _ := strings.Cut(l.await(t, tokenEnv+"="), " ")
	for _, c := range []struct {
		args  string
		code  int
		words string
	}{
		{"--pages 4 --token " + token, exitOK, ""},
		{"--pages 4 --token not-the-token-that-it-made", exitPermission, "token"},
		{"--pages 100 --token " + token, exitFailed, "--max-bytes"},
		{"--pages 4 --qp 2 --token " + token, exitOK, ""}, // SRD has one, however many are wanted
	} {
		if _, stderr, code := execute(t.Context(), "transfer to "+l.at+" -d embedded "+c.args); code != c.code || !strings.Contains(stderr, c.words) {
			t.Errorf("%s: exit %d: %s", c.args, code, stderr)
		}
	}
	l.await(t, "were not let in")
	l.stop()
	if code := <-l.code; code != exitOK || strings.Count(l.stdout.String(), "  verified: ") != 2 {
		t.Errorf("exit %d\n%s\n%s", code, &l.stdout, &l.stderr)
	}
}
