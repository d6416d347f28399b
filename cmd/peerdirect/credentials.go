package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/spf13/pflag"
)

// credentialFlags say what a side proves itself with.
type credentialFlags struct {
	token     string
	tokenFile string
	cert      string
	key       string
	ca        string
	name      string // of the peer
}

// tokenEnv has a token for commands that are given no other credentials.
const tokenEnv = "PEERDIRECT_TOKEN"

func (c *credentialFlags) register(f *pflag.FlagSet) {
	f.StringVar(&c.tokenFile, "token-file", "", "`file` with the token that all sides know, at least 16 random bytes (default none)")
	f.StringVar(&c.token, "token", "", "the token itself, which other users of this machine then see (default $"+tokenEnv+")")
	f.StringVar(&c.cert, "cert", "", "certificate `file` of this side, as 'peerdirect cert' makes them; with --key and --ca (default none)")
	f.StringVar(&c.key, "key", "", "its private key `file` (default none)")
	f.StringVar(&c.ca, "ca", "", "`file` with the certificate of the authority that the peer's must be of (default none)")
}

// registerPeer adds what only the side that dials can ask for.
func (c *credentialFlags) registerPeer(f *pflag.FlagSet) {
	f.StringVar(&c.name, "peer-name", "", "`name` that the peer's certificate must have (default any of the authority)")
}

// errNoCredentials: none were given.
var errNoCredentials = errors.New("who are you? All sides need the same token (--token-file, --token or $" + tokenEnv +
	"), or certificates of one authority (--cert, --key and --ca; 'peerdirect cert' makes them)")

// read gives the credentials, or errNoCredentials.
func (c *credentialFlags) read() (control.Credentials, error) {
	token := c.token
	switch certs := c.cert != "" || c.key != "" || c.ca != ""; {
	case certs && (c.token != "" || c.tokenFile != ""), c.token != "" && c.tokenFile != "":
		return control.Credentials{}, usageError{errors.New("a token, a file with one or certificates: give one of them")}
	case certs && (c.cert == "" || c.key == "" || c.ca == ""):
		return control.Credentials{}, usageError{errors.New("--cert, --key and --ca go together")}
	case certs:
		return control.CertificateFiles(c.cert, c.key, c.ca)
	case c.name != "":
		return control.Credentials{}, usageError{errors.New("--peer-name goes with --cert, --key and --ca: all who know a token are the same peer")}
	case c.tokenFile != "":
		b, err := os.ReadFile(c.tokenFile)
		if err != nil {
			return control.Credentials{}, err
		}
		token = string(b)
	case token == "":
		token = os.Getenv(tokenEnv)
	}
	if token = strings.TrimSpace(token); token == "" {
		return control.Credentials{}, usageError{errNoCredentials}
	}
	return control.Token(token)
}

// listening gives a listener's credentials. On the loopback address one that was
// given none makes a token, which it gives back for its user to hand on.
func (c *credentialFlags) listening(addr string) (credentials control.Credentials, made string, err error) {
	credentials, err = c.read()
	if !errors.Is(err, errNoCredentials) {
		return credentials, "", err
	}
	host, _, _ := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); host != "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return credentials, "", usageError{fmt.Errorf("listen on %s, where others reach it: %w", addr, errNoCredentials)}
	}
	made = rand.Text()
	credentials, err = control.Token(made)
	return credentials, made, err
}
