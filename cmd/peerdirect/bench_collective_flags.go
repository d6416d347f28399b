package main

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/internal/bench/collective"
	"github.com/peerdirect/peerdirect/transfer/report"
)

// embeddedDuration is how long a path is measured in a round among nodes in one
// process.
const embeddedDuration = 20 * time.Millisecond

// collectivePort is where node 0 waits by custom in the lab.
const collectivePort = "18632"

func parseSizes(list []string) (sizes []uint64, err error) {
	for _, s := range list {
		var b report.Bytes
		if err := b.Set(s); err != nil {
			return nil, usageError{fmt.Errorf("--sizes: %w", err)}
		}
		sizes = append(sizes, uint64(b))
	}
	return sizes, nil
}

// lab takes the nodes from the environment of a lab's machine, where no flag names
// them.
func (b *collectiveFlags) lab() error {
	nodes, _ := strconv.Atoi(os.Getenv("PEERDIRECT_NODES"))
	if len(b.p.Peers) > 0 || nodes < 2 || b.device != "" && strings.HasPrefix(b.device, "embedded") {
		return nil
	}
	rank, err := strconv.Atoi(os.Getenv("PEERDIRECT_NODE"))
	if err != nil {
		return usageError{fmt.Errorf("PEERDIRECT_NODE: %w", err)}
	}
	b.p.Rank = rank
	for _, addr := range strings.Split(os.Getenv("PEERDIRECT_ADDRS"), ",") {
		b.p.Peers = append(b.p.Peers, net.JoinHostPort(addr, collectivePort))
	}
	if b.device == "" {
		if b.device = os.Getenv("PEERDIRECT_EFA"); b.device == "" {
			b.device = os.Getenv("PEERDIRECT_DEVICE")
		}
	}
	return nil
}

// show draws the report, and prints it whether or not there is room for the picture.
func (b *collectiveFlags) show(w io.Writer, r *collective.Report) (err error) {
	if b.svg != "" {
		err = os.WriteFile(b.svg, collective.SVG(r), 0o644)
	}
	if b.json {
		return cmp.Or(perfJSON(w, r), err)
	}
	return cmp.Or(collective.Text(w, r), err)
}
