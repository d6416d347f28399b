package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/pages"
)

func TestTransferUsage(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		want string
	}{
		"nowhere":         {"transfer to -d rxe0", "which address"},
		"two places":      {"transfer to a b", "at most 1 arg"},
		"nobody's":        {"transfer to h -d embedded", "--token-file"},
		"open to all":     {"transfer listen -d embedded --listen 192.0.2.1", "peerdirect cert"},
		"open to any":     {"transfer listen -d embedded --listen 0.0.0.0:7", "where others reach it"},
		"two proofs":      {"transfer to h --token sixteen-bytes-and --cert a", "one of them"},
		"half a proof":    {"transfer to h --cert a --key b", "go together"},
		"short token":     {"transfer to h --token short", "16"},
		"nameless":        {"transfer to h --token sixteen-bytes-and --peer-name x", "--cert"},
		"no batch":        {"transfer to h --batch 0", "above 0"},
		"depth":           {"transfer to h --token sixteen-bytes-and -d embedded --batch 99 --depth 9", "depth: 9"},
		"rails":           {"transfer to h --token sixteen-bytes-and -d embedded:nics=2 --rails efa_7", "efa_0, efa_1"},
		"many rails":      {"transfer to h --token sixteen-bytes-and -d embedded:nics=2 --rails 3", "there are 2"},
		"rails twice":     {"transfer to h --token sixteen-bytes-and -d embedded:nics=2 --rails efa_0,efa_0", "twice"},
		"rails inside":    {"transfer to -d embedded --rails 1", "nics=4"},
		"peers twice":     {"transfer to h,h --token sixteen-bytes-and -d embedded", "named twice"},
		"nobody":          {"transfer to h, --token sixteen-bytes-and -d embedded", "receiver 2 of 2 has no address"},
		"little to share": {"transfer to h --peers i --divide --pages 1 --token sixteen-bytes-and -d embedded", "divided"},
		"embedded":        {"transfer to -d embedded:nodes=x", "nodes"},
		"one node":        {"transfer to -d embedded:nodes=1", "nodes=2"},
		"one name twice":  {"transfer to h --token sixteen-bytes-and -d rxe0,rxe0", "twice"},
		"verb":            {"transfer away", "away"},
		"page size":       {"transfer to h --page-size 5000", "a power of two"},
		"huge page":       {"transfer to h --page-size 1G", "64 MiB"},
		"no size":         {"transfer to h --page-size x", "no size"},
		"stride":          {"transfer to h --stride 100000", "no multiple"},
		"bench size":      {"bench registration -d embedded --min 5000", "a power of two"},
		"bench ends":      {"bench registration -d embedded --min 64K --max 4K", "max: 4096"},
		"bench runs":      {"bench registration --rounds 0", "above 0"},
		"bench share":     {"bench registration -d embedded --hits 101", "101 percent"},
		"bench what":      {"bench everything", "everything"},
		"no pages":        {"transfer to h --pages 0", "0 pages"},
		"no iterations":   {"transfer to h --iterations 0", "above 0"},
		"port":            {"transfer to h --ib-port 0", "from 1"},
		"gid":             {"transfer listen --gid-index -2", "-1 chooses"},
		"timeout":         {"transfer listen --timeout 0s", "above 0"},
		"no memory":       {"transfer listen --max-bytes 0 --listen 127.0.0.1:x --token sixteen-bytes-and", "--max-bytes and --at-once must be above 0"},
		"none at once":    {"transfer listen --at-once 0 --listen 127.0.0.1:x --token sixteen-bytes-and", "must be above 0"},
		"listen on two":   {"transfer listen a", "\"a\""},
		"demo link":       {"demo --lab --link ib", "rxe or siw"},
		"demo kernel":     {"demo --lab --kernel 2.4", "choose one of"},
		"demo efa":        {"demo --lab --efa 33", "up to 32"},
		"demo no lab":     {"demo --efa 2", "for --lab"},
		"demo lab nics":   {"demo --lab --nics 2", "--efa"},
		"demo no nics":    {"demo --nics 0", "--nics 0"},
		"demo too large":  {"demo --pages 100000", "span"},
		"demo node":       {"demo node {}", "PEERDIRECT_NODE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PEERDIRECT_NODE", "") // which the lab sets
			t.Setenv(tokenEnv, "")
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

// liveTerminal is a view on a terminal that a test is.
func liveTerminal(b *bytes.Buffer, columns, rows int, now *time.Time) *liveView {
	v := newLiveView(b)
	v.size = func() (int, int) { return columns, rows }
	v.now = func() time.Time { return *now }
	v.stats = func() []engine.RailStats {
		rails := make([]engine.RailStats, 6)
		for i := range rails {
			rails[i] = engine.RailStats{Device: fmt.Sprintf("efa_%d", i), Up: 1, Flight: 16}
		}
		rails[2].Up, rails[2].Losses, rails[2].Failed = 0, 2, 31
		return rails
	}
	return v
}

// screen is what a terminal shows of the view: the lines from where the cursor was.
func screen(drawn string) []string {
	last := drawn[strings.LastIndex(drawn, "\r\x1b[J")+1:]
	if i := strings.LastIndex(last, "\x1b[J\r"); i >= 0 {
		last = last[:i]
	}
	if i := strings.LastIndex(last, "A\r"); i >= 0 {
		last = last[i+1:]
	}
	return strings.Split(strings.ReplaceAll(strings.TrimPrefix(last, "\r"), "\x1b[K", ""), "\n")
}

func TestTheLiveViewFitsAndIsOnlyForTerminals(t *testing.T) {
	for _, size := range [][2]int{{20, 3}, {60, 24}, {80, 8}, {200, 50}, {5, 2}} {
		now := time.Unix(1000, 0)
		var b bytes.Buffer
		v := liveTerminal(&b, size[0], size[1], &now)
		for i := range 5 {
			now = now.Add(500 * time.Millisecond)
			for _, peer := range []string{"192.0.2.1:18630", "192.0.2.2:18630", "192.0.2.3:18630"} {
				v.tell(pages.Progress{Stage: pages.StageTransfer, Bytes: uint64(i) * 10 << 20, Total: 64 << 20, Peer: peer})
			}
			b.Reset()
			v.draw()
		}
		lines := screen(b.String())
		if len(lines) >= size[1] || len(lines) != v.shown {
			t.Errorf("%v: %d lines, %d are known: %q", size, len(lines), v.shown, lines)
		}
		for _, l := range lines {
			if len(l) >= size[0] {
				t.Errorf("%v: %d columns: %q", size, len(l), l)
			}
		}
		if all := strings.Join(lines, "\n"); size[0] == 200 {
			for _, want := range []string{"3 peers", "62%", "60 MiB/s", "1s left", "efa_5", "16 on their way", "down", "lost 2 times", "31 failed", "192.0.2.3:18630"} {
				if !strings.Contains(all, want) {
					t.Errorf("%q is not in\n%s", want, all)
				}
			}
		}
		for _, peer := range []string{"192.0.2.1:18630", "192.0.2.2:18630", "192.0.2.3:18630"} {
			v.tell(pages.Progress{Stage: pages.StageFailed, Peer: peer})
		}
		b.Reset()
		v.draw()
		v.close() // does nothing more
		if b.String() != "\r\x1b[J" {
			t.Errorf("%v: the view is left standing: %q", size, b.String())
		}
	}
	var b bytes.Buffer
	v := newLiveView(&b)
	v.show(nil)
	v.tell(pages.Progress{Stage: pages.StageTransfer, Bytes: 1, Total: 2})
	fmt.Fprint(v, "a word")
	v.close()
	if b.String() != "a word" {
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
	for _, args := range []string{"transfer listen -d nosuch0", "transfer to 127.0.0.1 -d nosuch0 --token sixteen-bytes-and"} {
		var stdout, stderr bytes.Buffer
		if code := run(context.Background(), strings.Fields(args), strings.NewReader(""), &stdout, &stderr); code != exitNoDevice || stdout.Len() > 0 {
			t.Errorf("%s: exit %d: %s", args, code, &stderr)
		}
	}
}
