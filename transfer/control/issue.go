package control

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"
)

// Issued is what Issue has made.
type Issued struct {
	Authority    string // file of the authority's certificate, which both sides need
	AuthorityKey string // file of its key, which no side needs
	Made         bool   // the authority was made for this
	Certificates []Issuance
}

// Issuance is one certificate.
type Issuance struct {
	Name             string
	Certificate, Key string // files
	NotAfter         time.Time
}

// DefaultValidity is how long a certificate is valid unless said otherwise.
const DefaultValidity = 365 * 24 * time.Hour

// Issue makes for each name a certificate and a key, in files of a directory, by
// the authority that is there; if there is none it makes the directory and an
// authority first. A name is a DNS name or a URI, and what Conn.Peer will give.
// Zero validity is DefaultValidity; no certificate outlives its authority. All
// files are for the owner alone, and none is replaced: if there is one already,
// or a name is wrong, nothing is written. Ed25519 throughout.
func Issue(dir string, names []string, validity time.Duration) (*Issued, error) {
	if validity == 0 {
		validity = DefaultValidity
	}
	if validity < 0 {
		return nil, &Error{Op: "issue certificates", Err: ErrUsage, Detail: "a validity of " + validity.String() + " lies in the past"}
	}
	if len(names) == 0 {
		return nil, &Error{Op: "issue certificates", Err: ErrUsage, Detail: "for whom? Name the machines or engines"}
	}
	out := &Issued{}
	out.Authority, out.AuthorityKey = pairFiles(dir, authorityName)
	for _, name := range names {
		base, err := fileName(name)
		if err != nil {
			return nil, about("issue a certificate for", plain(name), err)
		}
		c := Issuance{Name: name}
		c.Certificate, c.Key = pairFiles(dir, base)
		for _, other := range out.Certificates {
			if other.Certificate == c.Certificate {
				return nil, about("issue a certificate for", name, why(ErrUsage, "%s would have the same file, %s", other.Name, c.Certificate))
			}
		}
		for _, file := range []string{c.Certificate, c.Key} {
			if _, err := os.Lstat(file); err == nil {
				return nil, there(file)
			}
		}
		out.Certificates = append(out.Certificates, c)
	}
	now := time.Now()
	a, err := openAuthority(dir, now)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(dir, 0o700); err == nil {
			out.Made = true
			a, err = makeAuthority(dir, now.Add(-backdate), now.Add(max(authorityLife, validity)))
		}
	}
	if err != nil {
		return nil, err
	}
	for i := range out.Certificates {
		c := &out.Certificates[i]
		c.NotAfter = now.Add(validity)
		if c.NotAfter.After(a.cert.NotAfter) {
			c.NotAfter = a.cert.NotAfter
		}
		der, key, err := a.issue(c.Name, now.Add(-backdate), c.NotAfter)
		if err != nil {
			return nil, err
		}
		base, _ := fileName(c.Name)
		if err := writePair(dir, base, der, key); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// fileName checks a name and says what its files are called, without ending: the
// name itself, or a URI's parts joined by an underscore.
func fileName(name string) (string, error) {
	if !strings.Contains(name, "://") {
		if !isDNS(name) {
			return "", why(ErrUsage, "it is neither a DNS name (letters, digits, hyphens and dots) nor a URI (as spiffe://cluster/node-a)")
		}
		return name, reserved(name)
	}
	uri, err := url.Parse(name)
	// A certificate has a URI in the form that a parser gives it back.
	if err != nil || uri.Scheme == "" || uri.Host == "" || uri.String() != name {
		return "", why(ErrUsage, "it is no URI of the form scheme://host/path")
	}
	parts := strings.FieldsFunc(uri.Host+uri.EscapedPath(), func(r rune) bool { return r == '/' })
	base := strings.Join(parts, "_")
	if len(base) > maxFileName || uri.RawQuery != "" || uri.Fragment != "" || uri.User != nil || !isPlainFile(base) {
		return "", why(ErrUsage, "of a URI only scheme, host and path may be there, in letters, digits, hyphens, dots and underscores")
	}
	return base, reserved(base)
}

func reserved(base string) error {
	if base == authorityName {
		return why(ErrUsage, "the files of that name are the authority's own")
	}
	return nil
}

// maxFileName leaves room for the ending in what file systems allow.
const maxFileName = 240

func isDNS(name string) bool {
	if len(name) == 0 || len(name) > maxFileName {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' || strings.Contains(label, "_") || !isPlainFile(label) {
			return false
		}
	}
	return true
}

// isPlainFile says that text can be part of a file's name everywhere.
func isPlainFile(text string) bool {
	return !strings.HasPrefix(text, ".") && !strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_')
	})
}
