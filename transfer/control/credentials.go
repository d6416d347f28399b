package control

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// Credentials are what a side proves itself with, and what it wants to be shown.
// They are made once and never change; any number of connections share them. The
// zero value proves nothing and is refused. Printed, they show no secret.
type Credentials struct{ kind kind }

// kind is one of the two ways.
type kind interface {
	fmt.Stringer
	// protocol tells the two ways apart, before anything is proved.
	protocol() string
	// config is TLS's part for a role.
	config(r role, o Options) *tls.Config
}

// role is the part of a side where the two differ.
type role string

const (
	dialler  role = "dialler"
	listener role = "listener"
)

func (r role) other() role {
	if r == dialler {
		return listener
	}
	return dialler
}

// String names the credentials.
func (c Credentials) String() string {
	if c.kind == nil {
		return "no credentials"
	}
	return c.kind.String()
}

// GoString is String: %#v shows no secret either.
func (c Credentials) GoString() string { return c.String() }

func (c Credentials) check() error {
	if c.kind == nil {
		return why(ErrUsage, "no credentials: use CertificateFiles or Token")
	}
	return nil
}

// certificates are this side's certificate and the authority of all.
type certificates struct {
	own         tls.Certificate
	name        string
	authorities *x509.CertPool
	now         func() time.Time
}

// CertificateFiles reads a certificate (with those between it and the authority,
// if any), its private key and the certificates of the authority, or of several,
// all in PEM, as the command peerdirect cert makes them. The files are read once.
func CertificateFiles(certificate, key, authority string) (Credentials, error) {
	pool, err := readAuthorities(authority)
	if err != nil {
		return Credentials{}, err
	}
	own, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		if _, ok := errors.AsType[*fs.PathError](err); ok {
			return Credentials{}, err
		}
		return Credentials{}, about(readOp, certificate, why(ErrCredentials, "%v (its key was looked for in %s)", err, key))
	}
	c := &certificates{own: own, authorities: pool, now: time.Now}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if c.name, err = c.verify(own.Leaf, chain(own), usage); err != nil {
			return Credentials{}, about(readOp, certificate, err)
		}
	}
	return Credentials{c}, nil
}

func readAuthorities(file string) (*x509.CertPool, error) {
	list, err := readCertificates(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, c := range list {
		// A pool trusts whatever is in it, as itself: a node's own certificate
		// must not get there by mistake.
		if !c.BasicConstraintsValid || !c.IsCA {
			return nil, about(readOp, file, why(ErrCredentials, "the certificate of %q is no authority's: name the authority's file", plain(c.Subject.String())))
		}
		pool.AddCert(c)
	}
	return pool, nil
}

func chain(c tls.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, der := range c.Certificate[1:] {
		if between, err := x509.ParseCertificate(der); err == nil {
			pool.AddCert(between)
		}
	}
	return pool
}

func (c *certificates) String() string   { return "the certificate of " + c.name }
func (c *certificates) protocol() string { return "peerdirect-control-certificate" }

// shared is the knowledge of a token.
type shared struct {
	key []byte // of the proofs
	own tls.Certificate
}

// minToken is the shortest token, in bytes. Random bytes in the poorest common
// form, hexadecimal, are 64 bits then.
const minToken = 16

// Token is the credentials of all who know a secret: at least 16 bytes, random,
// as crypto/rand.Text or head -c 24 /dev/urandom | base64 makes it. White space
// around it, as of a file's last line, is the caller's to trim.
func Token(secret string) (Credentials, error) {
	if len(secret) < minToken {
		return Credentials{}, &Error{Op: "use token", Err: ErrUsage, Detail: fmt.Sprintf(
			"it has %d bytes, it needs at least %d, random: head -c 24 /dev/urandom | base64", len(secret), minToken)}
	}
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, "peerdirect control token 1", sha256.Size)
	if err != nil {
		return Credentials{}, err
	}
	own, err := unnamed()
	if err != nil {
		return Credentials{}, err
	}
	return Credentials{&shared{key: key, own: own}}, nil
}

// unnamed makes a certificate that TLS needs and nobody trusts.
func unnamed() (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := x509.Certificate{NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, public, private)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, nil
}

func (*shared) String() string   { return "a token" }
func (*shared) protocol() string { return "peerdirect-control-token" }
