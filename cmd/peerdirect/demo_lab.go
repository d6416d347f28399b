package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/peerdirect/peerdirect/internal/lab"
	"github.com/peerdirect/peerdirect/transfer/pages"
	"github.com/spf13/cobra"
)

// Nodes of the demonstration.
const (
	demoReceiver = 0
	demoSender   = 1
)

// runLab moves the pages between two virtual machines.
func (d *demoFlags) runLab(cmd *cobra.Command, layout pages.Layout) error {
	kernel, err := lab.KernelBySeries(d.kernel)
	if err != nil {
		return usageError{err}
	}
	if d.link != string(lab.LinkRXE) && d.link != string(lab.LinkSIW) {
		return usageError{fmt.Errorf("--link %s: choose rxe or siw", d.link)}
	}
	if d.efa < 0 || d.efa > lab.MaxEFA {
		return usageError{fmt.Errorf("--efa %d: a machine has up to %d", d.efa, lab.MaxEFA)}
	}
	out, err := os.MkdirTemp("", "peerdirect-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(out)
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	stages := newDemoStages(cmd.ErrOrStderr())
	built, err := lab.Build(cmd.Context(), kernel, stages)
	if err != nil {
		return err
	}
	link, devices := lab.Link(d.link), d.link+"0"
	if d.efa > 0 {
		link, devices = lab.LinkNone, fmt.Sprintf("%d EFA devices each", d.efa)
	}
	stages.begin("boot", fmt.Sprintf("two machines, linux %s, %s", built.Release, devices))
	text, err := json.Marshal(demoOrder{Layout: layout, Token: rand.Text()})
	if err != nil {
		return err
	}
	err = labError(lab.Run(cmd.Context(), lab.Options{
		Kernel: kernel, Nodes: 2, Link: link, EFA: lab.EFA{Count: d.efa}, Out: out, Agent: exe, Timeout: 5 * time.Minute,
		Command: []string{filepath.Base(exe), "demo", "node", string(text)},
		Stdout:  stages, Stderr: cmd.ErrOrStderr(), Log: cmd.ErrOrStderr(),
	}))
	stages.end()
	if errors.Is(err, context.Canceled) {
		return pages.ErrCancelled
	}
	if show := d.showNodes(cmd, out); err == nil {
		err = show
	}
	return err
}

// demoOrder is what the machines are to do.
type demoOrder struct {
	Layout pages.Layout `json:"layout"`
	Token  string       `json:"token"` // that they know each other by
}

// demoResult is what a machine leaves behind.
type demoResult struct {
	Result *pages.Result `json:"result"`
	PageOK []bool        `json:"page_ok,omitempty"`
}

func demoFile(dir string, node int) string {
	return filepath.Join(dir, fmt.Sprintf("node%d.json", node))
}

// showNodes draws what the machines left.
func (d *demoFlags) showNodes(cmd *cobra.Command, dir string) error {
	var nodes [2]demoResult
	for i := range nodes {
		b, err := os.ReadFile(demoFile(dir, i))
		if err != nil {
			return err
		}
		if err := json.Unmarshal(b, &nodes[i]); err != nil {
			return err
		}
	}
	sent, received := nodes[demoSender], nodes[demoReceiver]
	return d.show(cmd.OutOrStdout(), sent.Result, received.Result, received.PageOK)
}
