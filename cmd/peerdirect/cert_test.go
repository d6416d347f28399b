package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/internal/golden"
	"github.com/peerdirect/peerdirect/transfer/control"
)

func certRun(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), append([]string{"cert"}, args...), strings.NewReader(""), &out, &err)
	return code, out.String(), err.String()
}

func TestCertHelp(t *testing.T) {
	code, help, stderr := certRun(t, "--help")
	if code != exitOK || stderr != "" {
		t.Errorf("exit %d, %s", code, stderr)
	}
	golden.Check(t, "cert-help.txt", []byte(help))
}

func TestCertUsage(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"nobody":       {[]string{"--out", dir}, exitUsage, "at least 1 arg"},
		"nowhere":      {[]string{"node-a"}, exitUsage, "--out DIR"},
		"no days":      {[]string{"--out", dir, "--days", "0", "node-a"}, exitUsage, "--days 0: between 1 and 36500"},
		"many days":    {[]string{"--out", dir, "--days", "36501", "node-a"}, exitUsage, "--days 36501"},
		"days in text": {[]string{"--out", dir, "--days", "1y", "node-a"}, exitUsage, "--days"},
		"a path":       {[]string{"--out", dir, "../node-a"}, exitUsage, `certificate for ../node-a: it is neither a DNS name`},
		"twice":        {[]string{"--out", dir, "node-a", "node-a"}, exitUsage, "same file"},
		"authority":    {[]string{"--out", dir, "authority"}, exitUsage, "authority's own"},
		"in a file":    {[]string{"--out", "/dev/null/x", "node-a"}, exitFailed, "not a directory"},
		"flag":         {[]string{"--force", "node-a"}, exitUsage, "--force"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := certRun(t, c.args...)
			if code != c.code || !strings.Contains(stderr, c.want) || stdout != "" {
				t.Errorf("exit %d, stdout %q, stderr %q; want exit %d and %q", code, stdout, stderr, c.code, c.want)
			}
		})
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("wrote %v", left)
	}
}

// What cert makes is what two engines know each other by: also the one that is
// made later, by the authority that is there.
func TestCertMakesWhatEnginesUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	code, stdout, stderr := certRun(t, "--out", dir, "node-a")
	until := time.Now().Add(control.DefaultValidity).UTC().Format(time.DateOnly)
	want := strings.ReplaceAll(`made an authority: DIR/authority.pem, DIR/authority.key
node-a: DIR/node-a.pem, DIR/node-a.key, valid until `+until+`
Each engine needs its own two files and DIR/authority.pem; none needs DIR/authority.key.
`, "DIR", dir)
	if code != exitOK || stdout != want || stderr != "" {
		t.Fatalf("exit %d, %s%s, want\n%s", code, stdout, stderr, want)
	}
	code, stdout, stderr = certRun(t, "--out", dir, "--days", "2", "--json", "node-b", "spiffe://cluster/engine/7")
	var report certReport
	d := json.NewDecoder(strings.NewReader(stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(&report); code != exitOK || stderr != "" || err != nil {
		t.Fatalf("exit %d, %s%s, %v", code, stdout, stderr, err)
	}
	if report.Schema != certSchema || report.Made || len(report.Certificates) != 2 {
		t.Errorf("%+v", report)
	}
	code, stdout, stderr = certRun(t, "--out", dir, "node-c", "node-a")
	if code != exitFailed || stdout != "" || !strings.Contains(stderr, filepath.Join(dir, "node-a.pem")+": file already exists: nothing is replaced") {
		t.Errorf("again: exit %d, %s%s", code, stdout, stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "node-c.pem")); err == nil {
		t.Error("the name beside it was made")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 8 {
		t.Errorf("%d files, %v", len(entries), err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	a, err := control.CertificateFiles(file("node-a.pem"), file("node-a.key"), file("authority.pem"))
	if err != nil {
		t.Fatal(err)
	}
	later, err := control.CertificateFiles(report.Certificates[1].Certificate, report.Certificates[1].Key, report.Authority)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := control.Listen(ctx, ":0", a, control.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled, err := control.Dial(ctx, l.Addr().String(), later, control.Options{Peer: "node-a"})
	if err != nil {
		t.Fatal(err)
	}
	defer dialled.Close()
	accepted, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	if dialled.Peer() != "node-a" || accepted.Peer() != "spiffe://cluster/engine/7" {
		t.Errorf("%q and %q", dialled.Peer(), accepted.Peer())
	}
}
