package control

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

const (
	authorityName = "authority"
	// authorityLife is how long a new authority issues; certificates that last
	// longer take it with them.
	authorityLife = 10 * 365 * 24 * time.Hour
	// backdate lets machines whose clocks are behind take a certificate at once.
	backdate = time.Hour
)

// pairFiles are where a certificate and its key are.
func pairFiles(dir, base string) (cert, key string) {
	return filepath.Join(dir, base+".pem"), filepath.Join(dir, base+".key")
}

// openAuthority reads the authority of a directory; fs.ErrNotExist says that it
// has none.
func openAuthority(dir string, now time.Time) (*authority, error) {
	certFile, keyFile := pairFiles(dir, authorityName)
	list, err := readCertificates(certFile)
	if errors.Is(err, fs.ErrNotExist) {
		if _, keyErr := os.Lstat(keyFile); keyErr == nil {
			return nil, &Error{Op: "read the authority", Peer: certFile, Err: ErrCredentials, Detail: "its key is there and it is not: bring it back, or use another directory"}
		}
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	bad := func(format string, args ...any) (*authority, error) {
		return nil, about("read the authority", certFile, why(ErrCredentials, format, args...))
	}
	text, err := os.ReadFile(keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return bad("its key, %s, is not there: bring it back, or use another directory", keyFile)
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return bad("%s has no private key in PEM", keyFile)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return bad("%s: %v", keyFile, err)
	}
	a := &authority{cert: list[0]}
	key, ok := parsed.(crypto.Signer)
	switch public, comparable := a.cert.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); {
	case !ok || !comparable || !public.Equal(key.Public()):
		return bad("%s is not its key", keyFile)
	case !a.cert.IsCA:
		return bad("it is no authority's certificate")
	case !now.Before(a.cert.NotAfter):
		return bad("it expired at %s: use another directory, and issue all certificates again", a.cert.NotAfter.UTC().Format(time.RFC3339))
	}
	a.key = key
	return a, nil
}

// makeAuthority makes one and writes it.
func makeAuthority(dir string, from, to time.Time) (*authority, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "peerdirect authority"},
		NotBefore: from, NotAfter: to,
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{cert, private}, writePair(dir, authorityName, der, private)
}

// issue makes a certificate for both sides of a connection.
func (a *authority) issue(name string, from, to time.Time) (der []byte, key crypto.Signer, err error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		NotBefore: from, NotAfter: to,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if uri, err := url.Parse(name); err == nil && uri.Scheme != "" {
		template.URIs = []*url.URL{uri}
	} else {
		template.DNSNames = []string{name}
		template.Subject.CommonName = name // for people who look at it
	}
	der, err = x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	return der, private, err
}

const readOp = "read certificates of"

func readCertificates(file string) ([]*x509.Certificate, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var list []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, about(readOp, file, why(ErrCredentials, "%v", err))
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, about(readOp, file, why(ErrCredentials, "the file has no certificate in PEM"))
	}
	return list, nil
}

// writePair writes a key and its certificate, both or none, and replaces nothing.
func writePair(dir, base string, der []byte, key crypto.Signer) error {
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	certFile, keyFile := pairFiles(dir, base)
	if err := writeNew(keyFile, "PRIVATE KEY", pkcs8); err != nil {
		return err
	}
	if err := writeNew(certFile, "CERTIFICATE", der); err != nil {
		return errors.Join(err, os.Remove(keyFile))
	}
	return nil
}

func writeNew(name, kind string, der []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return there(name)
	}
	if err != nil {
		return err
	}
	err = pem.Encode(f, &pem.Block{Type: kind, Bytes: der})
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		os.Remove(name)
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func there(name string) error {
	return &Error{Op: "write", Peer: name, Err: fs.ErrExist, Detail: "nothing is replaced: move it away first, or use another directory"}
}
