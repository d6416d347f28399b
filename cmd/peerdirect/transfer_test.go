package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
)

func TestTransferUsage(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		want string
	}{
		"nowhere":        {"transfer to -d rxe0", "which address"},
		"two places":     {"transfer to a b", "at most 1 arg"},
		"embedded":       {"transfer to -d embedded:nodes=x", "nodes"},
		"one node":       {"transfer to -d embedded:nodes=1", "nodes=2"},
		"one name twice": {"transfer to h -d rxe0,rxe0", "twice"},
		"verb":           {"transfer away", "away"},
		"page size":      {"transfer to h --page-size 5000", "a power of two"},
		"huge page":      {"transfer to h --page-size 1G", "64 MiB"},
		"no size":        {"transfer to h --page-size x", "no size"},
		"stride":         {"transfer to h --stride 100000", "no multiple"},
		"bench size":     {"bench registration -d embedded --min 5000", "a power of two"},
		"bench ends":     {"bench registration -d embedded --min 64K --max 4K", "max: 4096"},
		"bench runs":     {"bench registration --runs 0", "above 0"},
		"bench share":    {"bench registration -d embedded --hits 101", "101 percent"},
		"bench what":     {"bench everything", "everything"},
		"no pages":       {"transfer to h --pages 0", "0 pages"},
		"no iterations":  {"transfer to h --iterations 0", "above 0"},
		"port":           {"transfer to h --port 0", "from 1"},
		"gid":            {"transfer listen --gid-index -2", "-1 chooses"},
		"timeout":        {"transfer listen --timeout 0s", "above 0"},
		"listen on two":  {"transfer listen a", "\"a\""},
		"demo link":      {"demo --lab --link ib", "rxe or siw"},
		"demo kernel":    {"demo --lab --kernel 2.4", "choose one of"},
		"demo efa":       {"demo --lab --efa 33", "up to 32"},
		"demo no lab":    {"demo --efa 2", "for --lab"},
		"demo lab nics":  {"demo --lab --nics 2", "--efa"},
		"demo no nics":   {"demo --nics 0", "--nics 0"},
		"demo too large": {"demo --pages 100000", "span"},
		"demo node":      {"demo node {}", "PEERDIRECT_NODE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PEERDIRECT_NODE", "") // which the lab sets
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), strings.Fields(c.args), strings.NewReader(""), &stdout, &stderr)
			if code != exitUsage || !strings.Contains(stderr.String(), c.want) || stdout.Len() > 0 {
				t.Errorf("exit %d, stdout %q, stderr %q; want exit %d and %q", code, &stdout, &stderr, exitUsage, c.want)
			}
		})
	}
}

func TestTransferAddresses(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.1": "192.0.2.1:18630", "192.0.2.1:7": "192.0.2.1:7", "host": "host:18630", ":7": ":7",
		"2001:db8::1": "[2001:db8::1]:18630", "[2001:db8::1]": "[2001:db8::1]:18630", "[2001:db8::1]:7": "[2001:db8::1]:7",
	} {
		if got := withPort(in); got != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
}

func TestTheProgressLineFitsAndIsOnlyForTerminals(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, columns := range []int{20, 60, 80, 200} {
		var b bytes.Buffer
		p := &progressLine{w: &b, columns: func() int { return columns }, now: func() time.Time { return now }}
		for i := range 5 {
			now = now.Add(500 * time.Millisecond)
			p.tell(transfer.Progress{Stage: transfer.StageTransfer, Bytes: uint64(i) * 10 << 20, Total: 64 << 20, Peer: "192.0.2.1:18630"})
		}
		if columns == 80 { // a failure: nothing is told any more
			p.end()
		} else {
			p.tell(transfer.Progress{Stage: transfer.StageDone})
		}
		p.end() // does nothing again
		lines := strings.Split(b.String(), "\r")
		for _, line := range lines[1:] {
			if n := len(strings.TrimSuffix(line, "\x1b[K")); n >= columns {
				t.Errorf("%d columns: %d are used: %q", columns, n, line)
			}
		}
		if last := lines[len(lines)-2]; columns >= 60 && !strings.Contains(last, "20 MiB/s  1s left") {
			t.Errorf("%d columns: %q", columns, last)
		}
		if !strings.HasSuffix(b.String(), "\r\x1b[K") || strings.HasSuffix(b.String(), "\r\x1b[K\r\x1b[K") {
			t.Errorf("the line is left standing: %q", b.String())
		}
	}
	var b bytes.Buffer
	newProgressLine(&b).tell(transfer.Progress{Stage: transfer.StageTransfer, Bytes: 1, Total: 2})
	if b.Len() > 0 {
		t.Errorf("in a pipe: %q", &b)
	}
}

func TestDemoStagesInAPipe(t *testing.T) {
	var b bytes.Buffer
	s := newDemoStages(&b)
	s.begin("boot", "two machines")
	for _, line := range []string{
		`node1 | {"Stage":"connect","Peer":"192.0.2.1:18630"}`, `node1 | {"Stage":"register","Total":100}`,
		`node1 | {"Stage":"transfer","Bytes":0,"Total":2048}`, "node0 | something else", `node1 | {"Stage":"transfer","Bytes":1024,"Total":2048}`,
		`node1 | {"Stage":"verify","Bytes":2048,"Total":2048}`, `node1 | {"Stage":"done","Bytes":2048,"Total":2048}`,
	} {
		half := len(line) / 2
		fmt.Fprint(s, line[:half])
		fmt.Fprintln(s, line[half:])
	}
	s.end()
	var stages []string
	for line := range strings.Lines(b.String()) {
		if f := strings.Fields(line); len(f) > 0 {
			stages = append(stages, f[0])
		}
	}
	if got := strings.Join(stages, " "); got != "boot connect register node0 transfer verify" || !strings.Contains(b.String(), "2 KiB by RDMA WRITE") || strings.Contains(b.String(), "\x1b") {
		t.Errorf("%s", &b)
	}
}

func TestTransferWithoutADevice(t *testing.T) {
	for _, args := range []string{"transfer listen -d nosuch0", "transfer to 127.0.0.1 -d nosuch0"} {
		var stdout, stderr bytes.Buffer
		if code := run(context.Background(), strings.Fields(args), strings.NewReader(""), &stdout, &stderr); code != exitNoDevice || stdout.Len() > 0 {
			t.Errorf("%s: exit %d: %s", args, code, &stderr)
		}
	}
}
