package control

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// raw makes credentials of a certificate without the checks of CertificateFiles.
func raw(a *authority, name string, der []byte, key crypto.Signer) Credentials {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return Credentials{&certificates{
		own:  tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: must(x509.ParseCertificate(der))},
		name: name, authorities: pool, now: time.Now,
	}}
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	return must(makeAuthority(t.TempDir(), time.Now().Add(-100*time.Hour), time.Now().Add(100*time.Hour)))
}

func TestBothKindsOfCredentials(t *testing.T) {
	noLeaks(t)
	certified := issued(t, "node-a", "rack1.node-b", "spiffe://cluster/engine/7")
	secret := token(t)
	for name, c := range map[string]struct {
		dial, listen             Credentials
		dialled, accepted, asked string
	}{
		"certificates":    {certified["node-a"], certified["rack1.node-b"], "rack1.node-b", "node-a", ""},
		"by name":         {certified["node-a"], certified["rack1.node-b"], "rack1.node-b", "node-a", "rack1.node-b"},
		"URI":             {certified["spiffe://cluster/engine/7"], certified["node-a"], "node-a", "spiffe://cluster/engine/7", ""},
		"URI by name":     {certified["node-a"], certified["spiffe://cluster/engine/7"], "spiffe://cluster/engine/7", "node-a", "spiffe://cluster/engine/7"},
		"the same":        {certified["node-a"], certified["node-a"], "node-a", "node-a", "node-a"},
		"token":           {secret, secret, "token", "token", ""},
		"the same secret": {must(Token(strings.Repeat("s3cret", 5))), must(Token(strings.Repeat("s3cret", 5))), "token", "token", ""},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			l := listen(t, c.listen, Options{})
			d, a := join(t, l, l.Addr().String(), c.dial, Options{Peer: c.asked})
			if d.Peer() != c.dialled || a.Peer() != c.accepted {
				t.Errorf("the sides are %q and %q, want %q and %q", a.Peer(), d.Peer(), c.accepted, c.dialled)
			}
			if d.RemoteAddr().String() != a.LocalAddr().String() || a.RemoteAddr().String() != d.LocalAddr().String() {
				t.Errorf("addresses %v %v %v %v", d.LocalAddr(), d.RemoteAddr(), a.LocalAddr(), a.RemoteAddr())
			}
			for i, c := range []*Conn{d, a} {
				if state := c.tls.ConnectionState(); state.Version != tls.VersionTLS13 || state.DidResume {
					t.Errorf("side %d: TLS %#x, resumed: %v", i, state.Version, state.DidResume)
				}
			}
			if s := l.Stats(); s.Proved != 1 || s.Refused+s.Crowded+s.Unwanted != 0 || s.Last != nil || s.HalfOpen != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Two sides that must not come together: what each is told, and that the
// listener counts it.
func TestRefusals(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	const hour = time.Hour
	node := func(a *authority, name string) Credentials { return valid(t, a, name, -hour, hour) }
	good := node(a, "node-a")
	secret := token(t)
	nameless := &x509.Certificate{NotBefore: time.Now().Add(-hour), NotAfter: time.Now().Add(hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, SerialNumber: big.NewInt(7)}
	nameless.Subject.CommonName = "node-a"
	onlyServer := &x509.Certificate{NotBefore: nameless.NotBefore, NotAfter: nameless.NotAfter, DNSNames: []string{"www"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	escape := &x509.Certificate{NotBefore: nameless.NotBefore, NotAfter: nameless.NotAfter, DNSNames: []string{"a\x1b[2J"},
		ExtKeyUsage: nameless.ExtKeyUsage}
	signed := func(template *x509.Certificate) Credentials {
		public, private, _ := ed25519.GenerateKey(nil)
		return raw(a, "odd", must(x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)), private)
	}
	for name, c := range map[string]struct {
		dial, listen Credentials
		peer         string
		class        error
		dialled      []string // what the dialler's error says
		refused      []string // what the listener's says
	}{
		"dialler of another authority":  {node(other, "spy"), good, "", ErrPermission, []string{"node-a", "not issued by the authority", "same authority"}, []string{"does not take the certificate of node-a"}},
		"dialler's trusts more":         {trusting(node(other, "spy"), a), good, "", ErrPermission, []string{"does not take the certificate of spy", "another authority"}, []string{"the certificate of spy", "not issued by the authority"}},
		"listener of another authority": {good, trusting(node(other, "trap"), a), "", ErrPermission, []string{"the certificate of trap", "not issued by"}, []string{"does not take the certificate of trap"}},
		"expired dialler":               {valid(t, a, "old", -9*hour, -hour), good, "", ErrPermission, []string{"certificate of old", "has expired", "peerdirect cert"}, []string{"certificate of old expired at", "peerdirect cert"}},
		"expired listener":              {good, valid(t, a, "old", -9*hour, -hour), "", ErrPermission, []string{"certificate of old expired at", "peerdirect cert"}, []string{"certificate of old", "has expired"}},
		"dialler of tomorrow":           {valid(t, a, "new", hour, 9*hour), good, "", ErrPermission, []string{"not yet valid"}, []string{"certificate of new is valid from", "clock"}},
		"listener of tomorrow":          {good, valid(t, a, "new", hour, 9*hour), "", ErrPermission, []string{"certificate of new is valid from", "clock"}, []string{"not yet valid"}},
		"another name":                  {good, node(a, "node-b"), "node-c", ErrPermission, []string{`"node-b"`, `"node-c"`}, []string{"has not the name"}},
		"a dialler without a name":      {signed(nameless), good, "", ErrPermission, nil, []string{"neither a DNS name nor a URI"}},
		"a listener without a name":     {good, signed(nameless), "", ErrPermission, []string{"neither a DNS name nor a URI", "node-a"}, nil},
		"a name that is no name":        {good, signed(escape), "", ErrPermission, nil, nil},
		"a server's, dialling":          {signed(onlyServer), good, "", ErrPermission, nil, []string{"www", "not for both sides"}},
		"another token":                 {token(t), secret, "", ErrPermission, []string{"tokens differ"}, []string{"does not know the token", "both sides the same"}},
		"token to certificates":         {secret, good, "", ErrPermission, []string{"this side has a token", "does it use certificates"}, []string{"this side has a certificate", "does it use a token"}},
		"certificate to token":          {good, secret, "", ErrPermission, []string{"this side has a certificate"}, []string{"this side has a token"}},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			l := listen(t, c.listen, Options{})
			conn, err := Dial(soon(t), l.Addr().String(), c.dial, Options{Peer: c.peer})
			if err == nil {
				conn.Close()
				t.Fatal("let in")
			}
			wants(t, err, c.class, append(c.dialled, "dial", l.Addr().String())...)
			eventually(t, "counted", func() bool { return l.Stats().Refused > 0 })
			s := l.Stats()
			wants(t, s.Last, c.class, append(c.refused, "refuse 127.0.0.1:")...)
			if s.Proved != 0 || s.Refused != 1 || s.LastAt.IsZero() {
				t.Errorf("%+v", s)
			}
			if testing.Verbose() {
				t.Logf("dialler:  %v\nlistener: %v", err, s.Last)
			}
		})
	}
}

// trusting exchanges the authority that credentials trust.
func trusting(c Credentials, a *authority) Credentials {
	changed := *c.kind.(*certificates)
	changed.authorities = x509.NewCertPool()
	changed.authorities.AddCert(a.cert)
	return Credentials{&changed}
}

func TestBadCredentials(t *testing.T) {
	dir := t.TempDir()
	out := must(Issue(dir, []string{"node-a", "node-b"}, 0))
	foreign := must(Issue(t.TempDir(), []string{"node-a"}, 0))
	node, other := out.Certificates[0], out.Certificates[1]
	garbage := filepath.Join(dir, "garbage")
	os.WriteFile(garbage, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), 0o600)
	empty := filepath.Join(dir, "empty")
	os.WriteFile(empty, nil, 0o600)
	for name, c := range map[string]struct {
		cert, key, authority string
		class                error
		words                []string
	}{
		"another's key":         {node.Certificate, other.Key, out.Authority, ErrCredentials, []string{"node-a.pem", "node-b.key", "does not match"}},
		"another's authority":   {node.Certificate, node.Key, foreign.Authority, ErrPermission, []string{"node-a.pem", "not issued by"}},
		"a node's as authority": {node.Certificate, node.Key, node.Certificate, ErrCredentials, []string{"node-a.pem", "no authority's", "name the authority's file"}},
		"no certificates":       {node.Certificate, node.Key, empty, ErrCredentials, []string{"empty", "no certificate in PEM"}},
		"garbage":               {node.Certificate, node.Key, garbage, ErrCredentials, []string{"garbage", "x509"}},
		"garbage certificate":   {garbage, node.Key, out.Authority, ErrCredentials, []string{"garbage"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := CertificateFiles(c.cert, c.key, c.authority)
			wants(t, err, c.class, c.words...)
			if got.kind != nil {
				t.Error("and there are credentials")
			}
		})
	}
	for _, files := range [][3]string{{"no.pem", node.Key, out.Authority}, {node.Certificate, "no.key", out.Authority}, {node.Certificate, node.Key, "no.pem"}} {
		if _, err := CertificateFiles(files[0], files[1], files[2]); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "no.") {
			t.Errorf("%v: %v", files, err)
		}
	}
	_, err := Token("fifteen letters")
	wants(t, err, ErrUsage, "15 bytes", "at least 16", "base64")
	_, err = Listen(t.Context(), ":0", Credentials{}, Options{})
	wants(t, err, ErrUsage, "no credentials", "Token")
	_, err = Dial(t.Context(), ":0", Credentials{}, Options{})
	wants(t, err, ErrUsage, "no credentials")
	_, err = Dial(t.Context(), ":0", token(t), Options{Peer: "node-a"})
	wants(t, err, ErrUsage, "node-a", "use certificates")
}

func TestPrintedCredentialsShowNoSecret(t *testing.T) {
	const secret = "correct horse battery"
	for _, c := range []Credentials{must(Token(secret)), issued(t, "node-a")["node-a"], {}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			text := fmt.Sprintf(verb, c)
			if len(text) > 40 || strings.Contains(text, "horse") || text != c.String() {
				t.Errorf("%s prints %s", verb, text)
			}
		}
	}
}

// Certificates of another tool: another kind of key, and one more authority
// between.
func TestCertificatesOfOthers(t *testing.T) {
	root := newAuthority(t)
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	between := &x509.Certificate{BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign, NotBefore: root.cert.NotBefore, NotAfter: root.cert.NotAfter}
	between.Subject.CommonName = "between"
	root.cert.MaxPathLen, root.cert.MaxPathLenZero = -1, false
	wide := *root
	wideTemplate := *root.cert
	der := must(x509.CreateCertificate(rand.Reader, &wideTemplate, &wideTemplate, root.key.Public(), root.key))
	wide.cert = must(x509.ParseCertificate(der))
	middle := &authority{must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, between, wide.cert, key.Public(), wide.key)))), key}
	c := valid(t, middle, "node-m", -time.Hour, time.Hour)
	c = trusting(c, &wide)
	files := c.kind.(*certificates)
	files.own.Certificate = append(files.own.Certificate, middle.cert.Raw)
	l := listen(t, c, Options{})
	d, a := join(t, l, l.Addr().String(), c, Options{Peer: "node-m"})
	if d.Peer() != "node-m" || a.Peer() != "node-m" {
		t.Errorf("%q %q", d.Peer(), a.Peer())
	}
}
