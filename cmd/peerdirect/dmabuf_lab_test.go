//go:build lab

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/peerdirect/peerdirect/dmabuf"
)

// labVGEM gives vgem, which all kernels of the lab have.
func labVGEM(t *testing.T) dmabuf.Exporter {
	t.Helper()
	if os.Getenv("PEERDIRECT_NODE") == "" {
		t.Skip("needs a lab guest: run make test-lab")
	}
	output(t, "modprobe", "vgem")
	e, err := dmabuf.Open("vgem")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestDMABufListFindsWhatTheKernelHas(t *testing.T) {
	labVGEM(t)
	var list dmabufList
	if err := json.Unmarshal([]byte(output(t, "peerdirect", "dmabuf", "list", "--json")), &list); err != nil {
		t.Fatal(err)
	}
	nodes := map[string]string{"udmabuf": "/dev/udmabuf", "memfd": "/dev/udmabuf", "heap:system": "/dev/dma_heap/system", "vgem": "/dev/dri"}
	for _, x := range list.Exporters {
		node, ok := nodes[x.Name]
		if !ok {
			continue
		}
		delete(nodes, x.Name)
		_, err := os.Stat(node)
		if x.Available != (err == nil) {
			t.Errorf("%s is available: %v, %s: %v", x.Name, x.Available, node, err)
		}
		if p := x.Problem; p != nil && p.Class != "no-device" {
			t.Errorf("%s: %+v", x.Name, *p)
		}
	}
	if len(nodes) > 0 {
		t.Errorf("not listed: %v", nodes)
	}
}

func TestDMABufShowSeesWhatAProcessHolds(t *testing.T) {
	m, err := labVGEM(t).Allocate(8192)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	b, err := m.Export(0, 8192)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.SetName("weights 1"); err != nil {
		t.Fatal(err)
	}
	info, err := b.Info()
	if err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(os.Getpid())
	var show dmabufShow
	if err := json.Unmarshal([]byte(output(t, "peerdirect", "dmabuf", "show", pid, "--json")), &show); err != nil {
		t.Fatal(err)
	}
	if len(show.Buffers) != 1 {
		t.Fatalf("%+v", show)
	}
	h := show.Buffers[0]
	// One descriptor is the memory's own, the other the export's.
	if h.Inode != info.Inode || *h.Exporter != info.Exporter || *h.Size != 8192 || h.Name != "weights 1" || len(h.FDs) != 2 || *h.Count < 2 {
		t.Errorf("%+v, and the kernel told %+v", h, info)
	}
	table := output(t, "peerdirect", "dmabuf", "show", pid)
	if !strings.Contains(table, fmt.Sprintf("\n%d ", info.Inode)) || !strings.Contains(table, " 8192 ") {
		t.Errorf("%s", table)
	}
	// What only a mapping holds.
	data, err := syscall.Mmap(b.FD(), 0, 4096, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(data)
	b.Close()
	m.Close()
	if err := json.Unmarshal([]byte(output(t, "peerdirect", "dmabuf", "show", pid, "--json")), &show); err != nil {
		t.Fatal(err)
	}
	if len(show.Buffers) != 1 || show.Buffers[0].Inode != info.Inode || len(show.Buffers[0].Mappings) != 1 || show.Buffers[0].Mappings[0].Size != 4096 {
		t.Errorf("%+v", show)
	}
}

func TestDMABufShowOfAnothersProcess(t *testing.T) {
	labVGEM(t)
	cmd := exec.Command("peerdirect", "dmabuf", "show", strconv.Itoa(os.Getpid()))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitPermission || len(out) > 0 || !strings.Contains(stderr.String(), "CAP_SYS_PTRACE") {
		t.Errorf("%v: %s%s", err, out, &stderr)
	}
}
