package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/pages"
	"github.com/peerdirect/peerdirect/transfer/report"
	"github.com/spf13/cobra"
)

func newTransferListen() *cobra.Command {
	var (
		flags  transferFlags
		listen string
		once   bool
		limit  = report.Bytes(pages.DefaultMaxBytes)
	)
	cmd := &cobra.Command{
		Use:   "listen",
		Short: "Receive transfers, several at once, until interrupted",
		Example: `  # With a token:
  head -c 24 /dev/urandom | base64 >token       # known to both machines
  peerdirect transfer listen --listen 192.0.2.1 --token-file token
  peerdirect transfer to 192.0.2.1 --token-file token

  # With certificates, and only once:
  peerdirect cert --out pki node-a node-b
  peerdirect transfer listen --listen 192.0.2.2 --once \
    --cert pki/node-a.pem --key pki/node-a.key --ca pki/authority.pem
  peerdirect transfer to 192.0.2.2 --peer-name node-a \
    --cert pki/node-b.pem --key pki/node-b.key --ca pki/authority.pem

  # Into a GPU's memory:
  peerdirect transfer listen --listen 192.0.2.1 --memory cuda:0 \
    --token-file token`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			if limit == 0 || flags.Peers < 1 { // 0 would be the default
				return usageError{errors.New("--max-bytes and --at-once must be above 0")}
			}
			if err := checkAddress("--listen", withPort(listen)); err != nil {
				return err
			}
			credentials, made, err := flags.listening(withPort(listen))
			if err != nil {
				return err
			}
			flags.Credentials = credentials
			node, embedded, err := flags.open(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer embedded.Close()
			defer node.Close()
			defer flags.view.close()
			warn := func(err error) { fmt.Fprintf(flags.view, "peerdirect: %v\n", err) }
			l, err := node.Listen(cmd.Context(), withPort(listen), pages.ListenOptions{MaxBytes: uint64(limit), Warn: warn})
			if err != nil {
				return err
			}
			defer l.Close()
			fmt.Fprintf(flags.view, "listening on %v\n", l.Addr())
			if made != "" {
				fmt.Fprintf(flags.view, "to send here, on this machine: %s=%s peerdirect transfer to %v\n", tokenEnv, made, l.Addr())
			}
			var printing error
			show := func(r *pages.Result) {
				flags.view.end()
				if err := printTransfer(cmd.OutOrStdout(), r, flags.json, false); printing == nil {
					printing = err
				}
			}
			if once {
				result, err := l.Receive(cmd.Context())
				if result != nil {
					show(result)
				}
				if err == nil {
					err = printing
				}
				return err
			}
			var interrupted error
			l.Serve(cmd.Context(), func(r *pages.Result, err error) {
				show(r)
				switch {
				case errors.Is(err, pages.ErrCancelled):
					interrupted = err
				case err != nil:
					warn(err)
				}
			})
			// Interrupted while nothing went on is the end that was meant.
			return cmp.Or(interrupted, printing)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&listen, "listen", pages.DefaultAddr, "`address[:port]` to wait on; without an address only this machine can connect")
	f.BoolVar(&once, "once", false, "end after one transfer, with its exit code")
	f.Var(&limit, "max-bytes", "bytes of memory that a sender may ask for, as 512M")
	f.IntVar(&flags.Peers, "at-once", 16, "transfers that may go on at the same time")
	flags.register(f)
	completeMemory(cmd)
	completeDevices(cmd, "efa", transfer.EmbeddedName)
	completeRails(cmd)
	return cmd
}
