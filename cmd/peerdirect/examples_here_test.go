package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer/control"
)

// TestExamplesHere runs those that need no more than a machine, and shows of those
// that need hardware how they end without.
func TestExamplesHere(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		t.Fatal("examples need jq ('scripts/deps test' installs it)")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// All of 127.0.0.0/8 is this machine's: addresses of our own keep other tests'
	// listeners out of the way.
	own := fmt.Sprintf("127.%d.%d.", 1+os.Getpid()>>8%250, os.Getpid()&0xff)
	place := examplePlace{
		name: "here", program: program,
		names:   strings.NewReplacer("192.0.2.", own, "4242", strconv.Itoa(os.Getpid()), "/mnt/rescue", "rescue"),
		prepare: prepareExamples,
	}
	place.run(t)
	there := func(file string) bool {
		_, err := os.Stat(file)
		return err == nil
	}
	gpu, nic := there("/dev/nvidia0"), there("/sys/class/infiniband/mlx5_0")
	place.name, place.refused = "gpus", !there("/dev/nvidia1")
	place.run(t)
	place.name, place.refused = "hardware", !gpu && !nic
	t.Run("hardware", func(t *testing.T) {
		if gpu != nic {
			t.Skip("needs a GPU and an mlx5 NIC, or neither, to be refused")
		}
		place.run(t)
	})
}

// prepareExamples makes what a command's examples read.
func prepareExamples(t *testing.T, dir, command string) {
	t.Helper()
	switch command {
	case "bench collective":
		if _, err := control.Issue(dir, []string{"node-0", "node-1"}, time.Hour); err != nil {
			t.Fatal(err)
		}
	case "transfer listen", "transfer to":
		if err := os.WriteFile(filepath.Join(dir, "token"), []byte(rand.Text()), 0o600); err != nil {
			t.Fatal(err)
		}
	case "doctor":
		var out bytes.Buffer
		if run(t.Context(), []string{"topo", "capture", "--sysroot", topoRoot(t, ""), filepath.Join(dir, "node7.tgz")}, nil, &out, &out) != exitOK {
			t.Fatal(&out)
		}
	case "", "devices", "topo", "topo capture":
		root := topoRoot(t, "")
		for _, name := range []string{"node7", "rescue"} {
			if err := os.Symlink(root, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "rails.txt"), []byte("GPU0 = mlx5_2\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
