package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/pages"
	"github.com/peerdirect/peerdirect/transfer/report"
	"github.com/spf13/cobra"
)

func newTransferTo() *cobra.Command {
	var (
		flags  transferFlags
		o      pages.SendOptions
		peers  []string
		page   = report.Bytes(64 << 10)
		stride report.Bytes
	)
	cmd := &cobra.Command{
		Use:   "to [ADDRESS[:PORT][,ADDRESS...]]",
		Short: "Send pages to listeners, or between embedded nodes",
		Example: `  # Two receivers, then the sender:
  peerdirect transfer listen --listen 192.0.2.1 --token-file token
  peerdirect transfer listen --listen 192.0.2.2 --token-file token
  peerdirect transfer to 192.0.2.1 --token-file token --pages 512
  peerdirect transfer to 192.0.2.1,192.0.2.2 --divide --token-file token
  peerdirect transfer to 192.0.2.1 --page-size 4K --stride 16K --scatter 7 \
    --read --json --token-file token

  # By two EFA devices, to a receiver that has as many:
  peerdirect transfer listen --listen 192.0.2.1 --device efa --rails 2 \
    --token-file token
  peerdirect transfer to 192.0.2.1 --device efa --rails 2 --token-file token

  # From a GPU's memory:
  peerdirect transfer to 192.0.2.1 --memory cuda:0 --token-file token

  # Both ends inside this process:
  peerdirect transfer to --device embedded:nodes=2,nics=4`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := flags.check(); err != nil {
				return err
			}
			if err := positive(cmd.Flags(), "iterations", "page-size", "stride", "wait"); err != nil {
				return err
			}
			if o.Layout, err = layoutOf(o.Layout, page, stride); err != nil {
				return err
			}
			if len(args) > 0 {
				peers = append(strings.Split(args[0], ","), peers...)
			}
			if len(peers) == 0 {
				return transferInside(cmd, o, &flags)
			}
			for i, peer := range peers {
				if peer == "" { // which would be this machine
					return usageError{fmt.Errorf("receiver %d of %d has no address", i+1, len(peers))}
				}
				peers[i] = withPort(peer)
				if err := checkAddress("receiver "+peer, peers[i]); err != nil {
					return err
				}
			}
			return transferTo(cmd, peers, o, &flags)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&peers, "peers", nil, "`addresses` of more receivers; each gets all pages, at the same time (default none)")
	f.BoolVar(&o.Divide, "divide", false, "divide the pages among the receivers instead")
	f.BoolVar(&o.Read, "read", false, "have the receivers read the pages, instead of writing them; not on iWARP")
	f.Var(&page, "page-size", "bytes of a page, a power of two, as 4K")
	f.IntVar(&o.Layout.Pages, "pages", 512, "how many pages to send")
	f.Var(&stride, "stride", "bytes from one page to the next in the source, a multiple of the page size (default twice that)")
	f.Uint64Var(&o.Layout.Seed, "scatter", 1, "`seed` that scatters the pages in the target; 0 keeps them in order")
	f.IntVarP(&o.Iterations, "iterations", "n", 1, "rounds through all pages; each is verified")
	f.DurationVar(&flags.Control.Window, "wait", 0, "how long to wait for the listener to be there (default 5s)")
	flags.register(f)
	flags.registerPeer(f)
	completeMemory(cmd)
	completeDevices(cmd, "efa", transfer.EmbeddedName)
	completeRails(cmd)
	return cmd
}

// transferTo sends to listeners.
func transferTo(cmd *cobra.Command, peers []string, o pages.SendOptions, flags *transferFlags) (err error) {
	if flags.Credentials, err = flags.read(); err != nil {
		return err
	}
	flags.Peers = len(peers)
	node, embedded, err := flags.open(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer embedded.Close()
	defer node.Close()
	results, err := node.To(cmd.Context(), peers, o)
	flags.view.close()
	var group *pages.Group
	for _, r := range results {
		if r == nil {
			continue
		}
		group = r.Group
		if err := printTransfer(cmd.OutOrStdout(), r, flags.json, len(peers) == 1); err != nil {
			return err
		}
	}
	if !flags.json {
		if err := report.Sum(cmd.OutOrStdout(), group); err != nil {
			return err
		}
	}
	return err
}

// transferInside sends from every other embedded node to the first, in turn.
func transferInside(cmd *cobra.Command, o pages.SendOptions, flags *transferFlags) error {
	var embedded *transfer.Embedded
	if err := flags.find(cmd.ErrOrStderr(), &embedded); err != nil {
		return err
	}
	if embedded == nil {
		return usageError{errors.New("to which address? Only embedded devices (--device embedded) have both ends here")}
	}
	defer embedded.Close()
	if flags.rails != "" && !flags.Near {
		return usageError{fmt.Errorf("--rails %s is for other machines' NICs: make as many as you want, --device embedded:nics=4", flags.rails)}
	}
	if embedded.Nodes() < 2 {
		return usageError{errors.New("one embedded node has nobody to send to: --device embedded:nodes=2")}
	}
	for node := 1; node < embedded.Nodes(); node++ {
		sent, received, err := pages.Inside(cmd.Context(), embedded, node, 0, flags.Options, o, func(sender, _ *pages.Node) { flags.view.show(sender.Stats) })
		flags.view.close()
		for _, r := range []*pages.Result{sent, received} {
			if r == nil {
				continue
			}
			if err := printTransfer(cmd.OutOrStdout(), r, flags.json, false); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// layoutOf completes a layout with sizes in bytes.
func layoutOf(l pages.Layout, page, stride report.Bytes) (pages.Layout, error) {
	if page == 0 || page > pages.MaxPageSize {
		return l, usageError{fmt.Errorf("--page-size %v: it is %d bytes to %v", page, pages.MinPageSize, report.Bytes(pages.MaxPageSize))}
	}
	if stride == 0 {
		stride = 2 * page
	}
	if stride%page != 0 {
		return l, usageError{fmt.Errorf("--stride %v is no multiple of the page size, %v", stride, page)}
	}
	l.PageSize, l.Stride = int(page), int(stride/page)
	if err := l.Validate(); err != nil {
		return l, usageError{err}
	}
	return l, nil
}
