package control

import (
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestIssue(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "pki")
	first := must(Issue(dir, []string{"node-a", "spiffe://cluster/engine/7"}, 0))
	// More names, later, by the authority that is there.
	second := must(Issue(dir, []string{"rack1.node-b"}, 48*time.Hour))
	if !first.Made || second.Made || first.Authority != second.Authority || len(first.Certificates) != 2 || len(second.Certificates) != 1 {
		t.Errorf("%+v\n%+v", first, second)
	}
	want := []string{"authority.key", "authority.pem", "cluster_engine_7.key", "cluster_engine_7.pem", "node-a.key", "node-a.pem", "rack1.node-b.key", "rack1.node-b.pem"}
	var names []string
	for _, e := range must(os.ReadDir(dir)) {
		names = append(names, e.Name())
		if mode := must(e.Info()).Mode(); mode != 0o600 {
			t.Errorf("%s has mode %v", e.Name(), mode)
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	if mode := must(os.Stat(dir)).Mode(); mode != fs.ModeDir|0o700 {
		t.Errorf("the directory has mode %v", mode)
	}
	for _, c := range append(first.Certificates, second.Certificates...) {
		cert := must(readCertificates(c.Certificate))[0]
		days := time.Until(c.NotAfter).Round(time.Hour).Hours() / 24
		wantDays := 365.0
		if c.Name == "rack1.node-b" {
			wantDays = 2
		}
		if nameOf(cert) != c.Name || days != wantDays || !cert.NotAfter.Equal(c.NotAfter.Truncate(time.Second)) || time.Since(cert.NotBefore) < backdate/2 {
			t.Errorf("%s: %v days, %v to %v", nameOf(cert), days, cert.NotBefore, cert.NotAfter)
		}
		if cert.IsCA || cert.KeyUsage != x509.KeyUsageDigitalSignature || cert.PublicKeyAlgorithm != x509.Ed25519 {
			t.Errorf("%s: %+v", c.Name, cert)
		}
	}
	// The two calls' certificates know each other.
	b, a := second.Certificates[0], first.Certificates[0]
	l := listen(t, must(CertificateFiles(a.Certificate, a.Key, first.Authority)), Options{})
	d, _ := join(t, l, l.Addr().String(), must(CertificateFiles(b.Certificate, b.Key, second.Authority)), Options{})
	if d.Peer() != "node-a" {
		t.Error(d.Peer())
	}
}

// read is every file of a directory.
func read(dir string) string {
	var b strings.Builder
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		b.WriteString(e.Name() + string(must(os.ReadFile(filepath.Join(dir, e.Name())))))
	}
	return b.String()
}

// What Issue refuses, and that it then writes nothing.
func TestIssueRefuses(t *testing.T) {
	dir := t.TempDir()
	must(Issue(dir, []string{"node-a"}, 0))
	before := read(dir)
	long := strings.Repeat("x", 64)
	for name, c := range map[string]struct {
		names    []string
		validity time.Duration
		class    error
		words    []string
	}{
		"nobody":          {nil, 0, ErrUsage, []string{"for whom?"}},
		"again":           {[]string{"node-b", "node-a"}, 0, fs.ErrExist, []string{"write", "node-a.pem", "nothing is replaced"}},
		"twice":           {[]string{"node-b", "node-b"}, 0, ErrUsage, []string{"node-b", "same file"}},
		"one file":        {[]string{"a://b/c", "d://b/c"}, 0, ErrUsage, []string{"a://b/c would have the same file", "b_c.pem"}},
		"the authority":   {[]string{"node-b", "authority"}, 0, ErrUsage, []string{"authority's own"}},
		"and as URI":      {[]string{"x://authority"}, 0, ErrUsage, []string{"authority's own"}},
		"empty":           {[]string{""}, 0, ErrUsage, []string{"neither a DNS name"}},
		"path":            {[]string{"../node"}, 0, ErrUsage, []string{"../node", "neither a DNS name"}},
		"hidden":          {[]string{".node"}, 0, ErrUsage, nil},
		"underscore":      {[]string{"node_b"}, 0, ErrUsage, nil},
		"space":           {[]string{"node b"}, 0, ErrUsage, nil},
		"escape":          {[]string{"\x1b[2J"}, 0, ErrUsage, []string{"?[2J"}},
		"not ASCII":       {[]string{"nöde"}, 0, ErrUsage, nil},
		"wildcard":        {[]string{"*.cluster"}, 0, ErrUsage, nil},
		"hyphen":          {[]string{"-node"}, 0, ErrUsage, nil},
		"long label":      {[]string{long}, 0, ErrUsage, nil},
		"long":            {[]string{strings.Repeat(long[:60]+".", 5) + "x"}, 0, ErrUsage, nil},
		"URI without all": {[]string{"spiffe:///x"}, 0, ErrUsage, []string{"scheme://host/path"}},
		"no scheme":       {[]string{"://x"}, 0, ErrUsage, nil},
		"query":           {[]string{"x://y/z?q=1"}, 0, ErrUsage, []string{"only scheme, host and path"}},
		"user":            {[]string{"x://me@y/z"}, 0, ErrUsage, nil},
		"odd path":        {[]string{"x://y/%2e%2e"}, 0, ErrUsage, nil},
		"hidden URI":      {[]string{"x://../y"}, 0, ErrUsage, nil},
		"the past":        {[]string{"node-b"}, -time.Hour, ErrUsage, []string{"-1h0m0s", "past"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Issue(dir, c.names, c.validity)
			wants(t, err, c.class, c.words...)
			if out != nil || read(dir) != before {
				t.Error("something was made")
			}
			fresh := filepath.Join(t.TempDir(), "fresh")
			if c.class == ErrUsage {
				Issue(fresh, c.names, c.validity)
				if _, err := os.Lstat(fresh); !errors.Is(err, fs.ErrNotExist) {
					t.Error("a directory was made")
				}
			}
		})
	}
}

// Authorities that cannot issue.
func TestBadAuthorities(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(dir string)
		words []string
	}{
		"no key":         {func(dir string) { os.Remove(filepath.Join(dir, "authority.key")) }, []string{"authority.key, is not there", "bring it back"}},
		"no certificate": {func(dir string) { os.Remove(filepath.Join(dir, "authority.pem")) }, []string{"authority.pem", "its key is there"}},
		"a node's": {func(dir string) {
			replace(dir, "authority.pem", "node-a.pem")
			replace(dir, "authority.key", "node-a.key")
		}, []string{"no authority's certificate"}},
		"another's key": {func(dir string) { replace(dir, "authority.key", "node-a.key") }, []string{"authority.key is not its key"}},
		"no PEM":        {func(dir string) { os.WriteFile(filepath.Join(dir, "authority.key"), []byte("x"), 0o600) }, []string{"no private key in PEM"}},
		"no certificate in it": {func(dir string) { os.WriteFile(filepath.Join(dir, "authority.pem"), []byte("x"), 0o600) },
			[]string{"authority.pem", "no certificate in PEM"}},
		"expired": {func(dir string) {
			os.Remove(filepath.Join(dir, "authority.key"))
			os.Remove(filepath.Join(dir, "authority.pem"))
			must(makeAuthority(dir, time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)))
		}, []string{"expired at", "another directory"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(Issue(dir, []string{"node-a"}, 0))
			c.spoil(dir)
			before := read(dir)
			_, err := Issue(dir, []string{"node-b"}, 0)
			wants(t, err, ErrCredentials, c.words...)
			if read(dir) != before {
				t.Error("something was written")
			}
		})
	}
	// No certificate outlives its authority.
	dir := t.TempDir()
	end := time.Now().Add(3 * time.Hour)
	must(makeAuthority(dir, time.Now().Add(-time.Hour), end))
	if got := must(Issue(dir, []string{"node-a"}, 0)).Certificates[0].NotAfter; !got.Equal(end.UTC().Truncate(time.Second)) {
		t.Errorf("valid until %v, the authority until %v", got, end)
	}
}

func replace(dir, name, by string) {
	os.WriteFile(filepath.Join(dir, name), must(os.ReadFile(filepath.Join(dir, by))), 0o600)
}
