// Command runguides runs the guides in docs/guides as a reader would: the blocks of each
// in order, on this machine or in the lab's, and holds what they print and how they end
// against what the guide says. scripts/guides calls it.
//
// A block's fence has the place behind the language: host, lab (on the host, where it
// starts machines itself), hardware (which is not run, and named at the end), or a
// machine of the lab:
//
//	rxe            one with an rxe device and an accelerator
//	node0, node1   two of them that reach each other, without accelerators
//	efa            one with two EFA devices, an accelerator and an IOMMU
//	efa0, efa1     two with an EFA device and an accelerator each
//	acs            efa, with access control on the accelerator's port
//
// Blocks of the host run first, then those of each kind of machines in one run, on all
// of its machines at once. Lines of a block:
//
//	# prints: REGEXP   is in the output; several in this order
//	# exits: N         the block's exit status, else 0
//	# tries: N         in the lab it is run so often, 2 s apart, until it exits so: for
//	                   what a reader does when the other machine is ready
//
// All run in one folder, which machines of the lab share. Variables: SRC is the clone,
// NODE0 and NODE1 the addresses of the machines.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed, err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "guides:", err)
		if errors.As(err, new(usageError)) {
			os.Exit(2)
		}
		os.Exit(1)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

// usageError says that there is no such guide or option.
type usageError string

func (e usageError) Error() string { return string(e) }

// run runs the guides of these names, or all; --host leaves the lab out. It gives the
// number of steps that failed. Before the first step it fails with a [usageError] if a
// name is none of a guide.
func run(ctx context.Context, names []string) (failed int, err error) {
	src, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	hostOnly := slices.Contains(names, "--host")
	names = slices.DeleteFunc(names, func(name string) bool { return name == "--host" })
	files, err := filepath.Glob("docs/guides/*.md")
	if err != nil {
		return 0, err
	}
	var known []string
	for _, file := range files {
		known = append(known, strings.TrimSuffix(filepath.Base(file), ".md"))
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return 0, usageError(fmt.Sprintf("no guide is named %q; the form is scripts/guides [--host] [GUIDE...]; GUIDE is one of %s", name, strings.Join(known, ", ")))
		}
	}
	if len(names) == 0 {
		names = known
	}
	done := 0
	var left []string
	for _, name := range names {
		file := filepath.Join("docs/guides", name+".md")
		text, err := os.ReadFile(file)
		if err != nil {
			return failed, err
		}
		all, err := steps(file, string(text))
		if err != nil {
			return failed, err
		}
		r := &runner{src: src, dir: filepath.Join(src, "build/guides", name), steps: all, hostOnly: hostOnly}
		if err := r.run(ctx); err != nil {
			return failed, err
		}
		done += r.done
		failed += r.failed
		left = append(left, r.left...)
	}
	for _, title := range left {
		fmt.Println("not run  ", title)
	}
	fmt.Printf("guides: %d blocks done as they say, %d not, %d not run\n", done, failed, len(left))
	return failed, ctx.Err()
}
