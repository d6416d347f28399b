package control

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// base is what TLS does in both ways: version 1.3 alone, no resumption, which
// would skip the proof.
func base(k kind, own tls.Certificate) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{k.protocol()},
		SessionTicketsDisabled: true,
		// Small records first are for browsers.
		DynamicRecordSizingDisabled: true,
		Certificates:                []tls.Certificate{own},
		// There is no host's name to verify: VerifyConnection, which every
		// handshake goes through, does the whole of the verification.
		InsecureSkipVerify: true,
	}
}

// checkProtocol finds a peer that speaks TLS for another purpose.
func checkProtocol(k kind, s tls.ConnectionState) error {
	if s.NegotiatedProtocol != k.protocol() {
		return why(ErrProtocol, "speaks TLS, but not this protocol: is the port another service's?")
	}
	return nil
}

func (c *certificates) config(r role, o Options) *tls.Config {
	config := base(c, c.own)
	config.Time = c.now
	usage := x509.ExtKeyUsageServerAuth
	if r == listener {
		// The authority is not named to strangers.
		config.ClientAuth = tls.RequireAnyClientCert
		usage = x509.ExtKeyUsageClientAuth
	} else {
		// Whatever the listener asks for: it shall say what is wrong with this one.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c.own, nil }
	}
	config.VerifyConnection = func(s tls.ConnectionState) error {
		if err := checkProtocol(c, s); err != nil {
			return err
		}
		if len(s.PeerCertificates) == 0 {
			return why(ErrPermission, "showed no certificate")
		}
		between := x509.NewCertPool()
		for _, cert := range s.PeerCertificates[1:] {
			between.AddCert(cert)
		}
		name, err := c.verify(s.PeerCertificates[0], between, usage)
		if err == nil && r == dialler && o.Peer != "" && name != o.Peer {
			return why(ErrPermission, "it is %q by its certificate, and %q was to be there: is the address right?", name, o.Peer)
		}
		return err
	}
	return config
}

func (t *shared) config(role, Options) *tls.Config {
	config := base(t, t.own)
	// Who the peer is, prove finds out.
	config.VerifyConnection = func(s tls.ConnectionState) error { return checkProtocol(t, s) }
	return config
}

// verify checks a certificate against the authority, and gives its name.
func (c *certificates) verify(cert *x509.Certificate, between *x509.CertPool, usage x509.ExtKeyUsage) (string, error) {
	name := nameOf(cert)
	said := plain(name)
	if name == "" {
		said = plain(fmt.Sprintf("serial number %v, subject %q", cert.SerialNumber, cert.Subject.String()))
	}
	now := c.now()
	_, err := cert.Verify(x509.VerifyOptions{
		Roots: c.authorities, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage},
	})
	const remedy = "make another with: peerdirect cert"
	day := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	_, isUnknown := errors.AsType[x509.UnknownAuthorityError](err)
	switch {
	case isUnknown:
		return "", why(ErrPermission, "the certificate of %s was not issued by the authority that this side trusts, but by one called %q: issue both sides' with the same authority",
			said, plain(cert.Issuer.CommonName))
	case isInvalid && invalid.Reason == x509.Expired && now.After(cert.NotAfter):
		return "", why(ErrPermission, "the certificate of %s expired at %s: %s", said, day(cert.NotAfter), remedy)
	case isInvalid && invalid.Reason == x509.Expired && now.Before(cert.NotBefore):
		return "", why(ErrPermission, "the certificate of %s is valid from %s, and it is %s: is the clock right on both machines?", said, day(cert.NotBefore), day(now))
	case isInvalid && invalid.Reason == x509.Expired:
		return "", why(ErrPermission, "the certificate of the authority of %s has expired or is not yet valid: make a new authority, and all certificates with it", said)
	case isInvalid && invalid.Reason == x509.IncompatibleUsage:
		return "", why(ErrPermission, "the certificate of %s is not for both sides of a connection: %s", said, remedy)
	case err != nil:
		return "", why(ErrPermission, "the certificate of %s: %s: %s", said, plain(err.Error()), remedy)
	case name == "":
		return "", why(ErrPermission, "the certificate (%s) has neither a DNS name nor a URI to call the peer by: %s", said, remedy)
	}
	return name, nil
}

// nameOf is what a certificate's holder is called: its first DNS name, or else
// its first URI; nothing where that is no name to print.
func nameOf(cert *x509.Certificate) string {
	var name string
	switch {
	case len(cert.DNSNames) > 0:
		name = cert.DNSNames[0]
	case len(cert.URIs) > 0:
		name = cert.URIs[0].String()
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }) {
		return ""
	}
	return name
}
