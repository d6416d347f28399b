package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/spf13/cobra"
)

const (
	certSchema  = "peerdirect.cert/1"
	maxCertDays = 36500
)

// certReport is what cert --json prints.
type certReport struct {
	Schema       string       `json:"schema"`
	Authority    string       `json:"authority"`
	AuthorityKey string       `json:"authority_key"`
	Made         bool         `json:"authority_made"`
	Certificates []certIssued `json:"certificates"`
}

type certIssued struct {
	Name        string    `json:"name"`
	Certificate string    `json:"certificate"`
	Key         string    `json:"key"`
	NotAfter    time.Time `json:"not_after"`
}

func newCert() *cobra.Command {
	var dir string
	var days int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "cert --out DIR NAME...",
		Short: "Make certificates by which engines know each other",
		Long: `cert makes for each NAME a key and a certificate, NAME.key and NAME.pem in DIR,
by the authority that is there, authority.key and authority.pem. If DIR has
none, it makes one first. Run it again with the same DIR for more names.

A NAME is a DNS name, of a machine or of an engine, or a URI such as
spiffe://cluster/engine/7, whose files are called cluster_engine_7. It is what
the peer is known by, and need not be an address.

An engine needs its own two files and authority.pem. Whoever has a certificate
of the authority is let in by all others, so authority.key stays where
certificates are made. All files are readable by their owner alone, and none is
ever replaced: to renew a certificate, move the old one away. There is no
revocation: if a key is lost to somebody, make a new authority in another DIR. A
new authority lasts ten years, or as long as its first certificates, and they no
longer than it.

Names are checked before anything is made.

Exit codes: 0 made; 1 a file is there already or cannot be written, or the
authority in DIR cannot be used; 2 usage; 4 no permission.`,
		Example: `  peerdirect cert --out pki node-a node-b
  peerdirect cert --out pki --days 30 node-c    # by the same authority
  peerdirect cert --out pki --json node-d | jq -r '.certificates[].not_after'`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			switch {
			case dir == "":
				return usageError{errors.New("where to? Name a directory: --out DIR")}
			case days < 1 || days > maxCertDays:
				return usageError{fmt.Errorf("--days %d: between 1 and %d", days, maxCertDays)}
			}
			issued, err := control.Issue(dir, names, time.Duration(days)*24*time.Hour)
			if err != nil {
				return err
			}
			report := newCertReport(issued)
			if asJSON {
				return printJSON(cmd.OutOrStdout(), report)
			}
			return report.print(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&dir, "out", "o", "", "`directory` of the authority and of all files (required)")
	f.IntVar(&days, "days", 365, "how long the certificates are valid, `days`")
	f.BoolVar(&asJSON, "json", false, "print what was made as JSON, schema "+certSchema)
	cmd.MarkFlagDirname("out")
	return cmd
}

func newCertReport(issued *control.Issued) certReport {
	r := certReport{Schema: certSchema, Authority: issued.Authority, AuthorityKey: issued.AuthorityKey, Made: issued.Made}
	for _, c := range issued.Certificates {
		r.Certificates = append(r.Certificates, certIssued{c.Name, c.Certificate, c.Key, c.NotAfter.UTC().Truncate(time.Second)})
	}
	return r
}

func (r certReport) print(w io.Writer) error {
	if r.Made {
		fmt.Fprintf(w, "made an authority: %s, %s\n", r.Authority, r.AuthorityKey)
	}
	for _, c := range r.Certificates {
		fmt.Fprintf(w, "%s: %s, %s, valid until %s\n", c.Name, c.Certificate, c.Key, c.NotAfter.Format(time.DateOnly))
	}
	_, err := fmt.Fprintf(w, "Each engine needs its own two files and %s; none needs %s.\n", r.Authority, r.AuthorityKey)
	return err
}
