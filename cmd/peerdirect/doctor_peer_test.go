package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/internal/doctor/peer"
)

// doctorListener runs doctor --listen on a port of its own.
func doctorListener(t *testing.T, args string) *listening {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l := &listening{code: make(chan int, 1), stop: stop}
	ended := make(chan struct{})
	go func() {
		l.code <- run(ctx, strings.Fields("doctor --listen 127.0.0.1:0 -d embedded "+args), strings.NewReader(""), &l.stdout, &l.stderr)
		close(ended)
	}()
	t.Cleanup(func() { stop(); <-ended })
	l.at = l.await(t, "listening on ")
	return l
}

// TestDoctorPeer: both sides by command, as text and as JSON.
func TestDoctorPeer(t *testing.T) {
	t.Setenv(tokenEnv, "")
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("sixteen-bytes-and-more\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := doctorListener(t, "--token-file "+token)
	stdout, stderr, code := execute(t.Context(), "doctor -d embedded --peer "+l.at+" --token-file "+token)
	if code != exitOK || stderr != "" || strings.Count(stdout, "\n") != len(peer.Names())+1 || !strings.HasSuffix(stdout, "The path to "+l.at+" works.\n") {
		t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
	}
	for _, n := range peer.Names() {
		if !strings.Contains(stdout, "ok          "+string(n)+" ") {
			t.Errorf("no step %s:\n%s", n, stdout)
		}
	}
	stdout, stderr, code = execute(t.Context(), "doctor -d embedded --json --peer "+l.at+" --token sixteen-bytes-and-more")
	d := json.NewDecoder(strings.NewReader(stdout))
	d.DisallowUnknownFields()
	var r peer.Result
	if err := d.Decode(&r); err != nil || code != exitOK || r.Schema != peer.Schema || r.Role != peer.RoleDialler || r.Verdict != peer.OK || len(r.Steps) != len(peer.Names()) {
		t.Errorf("exit %d: %v\n%s\n%s", code, err, stdout, stderr)
	}
	for args, want := range map[string]int{
		"--peer " + l.at + " --token another-token-of-others": exitPermission,
		"--peer 127.0.0.1:1 --token-file " + token:            exitFailed,
	} {
		stdout, stderr, code := execute(t.Context(), "doctor -d embedded "+args)
		if code != want || stderr != "" || !strings.Contains(stdout, "fails at the step") || !strings.Contains(stdout, "remedy: ") {
			t.Errorf("%s: exit %d\n%s\n%s", args, code, stdout, stderr)
		}
	}
	l.await(t, "were not let in")
	l.stop()
	if code := <-l.code; code != exitOK || strings.Count(l.stdout.String(), "works.") != 2 {
		t.Errorf("exit %d\n%s\n%s", code, &l.stdout, &l.stderr)
	}
}

// TestDoctorListenOnce ends with the test's exit code, and makes a token on the loopback
// address.
func TestDoctorListenOnce(t *testing.T) {
	t.Setenv(tokenEnv, "")
	l := doctorListener(t, "--once --json")
	token, _, _ := strings.Cut(l.await(t, tokenEnv+"="), " ")
	if stdout, _, code := execute(t.Context(), "doctor -d embedded --all --peer "+l.at+" --token "+token); code != exitOK || !strings.Contains(stdout, "are linked by a second TCP connection") {
		t.Errorf("exit %d\n%s", code, stdout)
	}
	code := <-l.code
	var r peer.Result
	if err := json.Unmarshal([]byte(l.stdout.String()), &r); err != nil || code != exitOK || r.Role != peer.RoleListener || strings.Count(l.stdout.String(), "\n") != 1 {
		t.Errorf("%v\n%s\n%s", err, &l.stdout, &l.stderr)
	}
}

// TestDoctorPeerInterrupted: both sides end, with exit 1.
func TestDoctorPeerInterrupted(t *testing.T) {
	const token = " --token sixteen-bytes-and-more"
	l := doctorListener(t, "--once"+token)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer stop()
	if stdout, stderr, code := execute(ctx, "doctor -d embedded:latency=500ms --peer "+l.at+token); code != exitFailed || !strings.Contains(stdout, "interrupted by the user") {
		t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
	}
	l.stop()
	if code := <-l.code; code != exitFailed {
		t.Errorf("exit %d\n%s\n%s", code, &l.stdout, &l.stderr)
	}
}

// TestDoctorPeerUsage: flags that make no sense.
func TestDoctorPeerUsage(t *testing.T) {
	t.Setenv(tokenEnv, "")
	for args, words := range map[string]string{
		"--peer 192.0.2.1 --listen":                       "two sides",
		"--peer=":                                         "needs an address",
		"--peer 192.0.2.1":                                "--token-file",
		"--listen=192.0.2.1 -d embedded":                  "listen on 192.0.2.1",
		"--listen 192.0.2.1 192.0.2.2":                    "192.0.2.1",
		"--peer 192.0.2.1 --once":                         "--once is for --listen",
		"--once":                                          "--once is for --peer or --listen",
		"--peer 192.0.2.1 --fix":                          "--fix",
		"--listen --watch":                                "--watch",
		"--peer 192.0.2.1 --timeout 0s":                   "--timeout",
		"--peer 192.0.2.1 --ib-port 0":                    "--ib-port",
		"--peer 192.0.2.1 -x -2":                          "--gid-index",
		"--token x":                                       "--token is for",
		"--peer 192.0.2.1 --token-file nothing --token x": "one of them",
		"192.0.2.1":                                       "unknown command",
	} {
		if _, stderr, code := execute(t.Context(), "doctor "+args); code != exitUsage || !strings.Contains(stderr, words) {
			t.Errorf("%s: exit %d: %s", args, code, stderr)
		}
	}
	if stdout, stderr, code := execute(t.Context(), "doctor --peer 127.0.0.1 --token sixteen-bytes-and-more -d embedded:nics=2"); code != exitUsage || !strings.Contains(stdout, "--device") {
		t.Errorf("several NICs: exit %d\n%s\n%s", code, stdout, stderr)
	}
}
