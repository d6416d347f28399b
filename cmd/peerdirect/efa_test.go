package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/efa/wire"
)

// serveEFA runs 'efa serve' until the test ends it, and gives its first lines.
func serveEFA(t *testing.T, lines int, args ...string) (out []string, end func() (code int, stderr string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	var stderr bytes.Buffer
	done := make(chan int, 1)
	go func() {
		code := run(ctx, append([]string{"efa", "serve"}, args...), strings.NewReader(""), w, &stderr)
		w.Close()
		done <- code
	}()
	end = func() (int, string) {
		cancel()
		go io.Copy(io.Discard, r)
		select {
		case code := <-done:
			return code, stderr.String()
		case <-time.After(time.Minute):
			t.Fatal("efa serve does not end")
			return 0, ""
		}
	}
	var text []byte
	for b := make([]byte, 1); bytes.Count(text, []byte("\n")) < lines; {
		if _, err := r.Read(b); err != nil {
			code, words := end()
			t.Fatalf("efa serve ended with %d after %q: %s", code, text, words)
		}
		text = append(text, b...)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), end
}

func TestEFAServe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "efa")
	lines, end := serveEFA(t, 4, "--socket", dir, "--nodes", "2", "--devices", "2", "--json")
	var sockets []string
	gids := map[string]bool{}
	for i, text := range lines {
		var line efaLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if line.Schema != efaSchema || line.Node != i/2 || line.Device != i%2 || !strings.Contains(line.QEMU, line.Socket) {
			t.Errorf("line %d is %+v", i, line)
		}
		gids[line.GID] = true
		sockets = append(sockets, line.Socket)
	}
	if len(gids) != 4 {
		t.Errorf("%d addresses for 4 devices", len(gids))
	}
	for i, name := range []string{"node0-dev0.sock", "node0-dev1.sock", "node1-dev0.sock", "node1-dev1.sock"} {
		if want := filepath.Join(dir, name); sockets[i] != want {
			t.Errorf("socket %d is %s, want %s", i, sockets[i], want)
		}
		info, err := os.Stat(sockets[i])
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", sockets[i], info.Mode().Perm())
		}
	}
	// Somebody really answers: VERSION 0.0, asked in 20 bytes.
	conn, err := net.Dial("unix", sockets[3])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	hello := make([]byte, 20)
	hello[2], hello[4] = 1, 20
	if _, err := conn.Write(hello); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 16)
	if _, err := io.ReadFull(conn, head); err != nil || binary.LittleEndian.Uint32(head[8:]) != 1 {
		t.Errorf("VERSION was answered with %x, %v", head, err)
	}
	if code, stderr := end(); code != exitOK || stderr != "" {
		t.Errorf("exit code %d, want 0; %s", code, stderr)
	}
	for _, path := range sockets {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
}

func TestEFAServeOneSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	lines, end := serveEFA(t, 1, "--socket", path)
	if want := path + "\t-device '" + `{"driver":"vfio-user-pci","socket":{"path":"` + path + `","type":"unix"}}'`; lines[0] != want {
		t.Errorf("%s, want %s", lines[0], want)
	}
	var out, words bytes.Buffer
	if code := run(t.Context(), []string{"efa", "serve", "--socket", path}, nil, &out, &words); code != exitFailed ||
		!strings.Contains(words.String(), "another server") {
		t.Errorf("a second server ended with %d: %s", code, words.String())
	}
	if code, stderr := end(); code != exitOK {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

func TestEFAServeUsage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		code int
		say  string
	}{
		{[]string{}, exitUsage, "socket"},
		{[]string{"--socket", ""}, exitUsage, "--socket"},
		{[]string{"--socket", "s", "--devices", "0"}, exitUsage, "--devices"},
		{[]string{"--socket", "s", "--api", "0.4"}, exitUsage, "0.3"},
		{[]string{"--socket", "s", "--sub-cqs", "3"}, exitUsage, "--sub-cqs"},
		{[]string{"--socket", "s", "--loss", "1"}, exitUsage, "--loss"},
		{[]string{"--socket", "s", "--latency", "-1s"}, exitUsage, "negative"},
		{[]string{"--socket", "s", "--admin-fault", "CREATE"}, exitUsage, "COMMAND:FAULT"},
		{[]string{"--socket", "s", "--admin-fault", "CREATE:timeout"}, exitUsage, "no admin command"},
		{[]string{"--socket", "s", "--admin-fault", "ANY:nonsense"}, exitUsage, "no fault"},
		{[]string{"--socket", "s", "--admin-fault", "ANY:timeout:0"}, exitUsage, "count"},
		{[]string{"--socket", file}, exitFailed, "no socket"},
		{[]string{"--socket", file, "--devices", "2"}, exitFailed, "not a directory"},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			var out, words bytes.Buffer
			code := run(t.Context(), append([]string{"efa", "serve"}, test.args...), nil, &out, &words)
			if code != test.code || !strings.Contains(words.String(), test.say) {
				t.Errorf("exit code %d, want %d with %q: %s", code, test.code, test.say, words.String())
			}
		})
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Type() != fs.FileMode(0) {
		t.Errorf("the file in the way: %v, %v", info, err)
	}
}

func TestParseAdminFault(t *testing.T) {
	for text, want := range map[string]device.AdminFault{
		"CREATE_CQ:timeout":                    {Opcode: wire.OpCreateCQ, Count: 1, NoCompletion: true},
		"ANY:no-interrupt:3":                   {Count: 3, NoInterrupt: true},
		"REG_MR:bad-checksum:2":                {Opcode: wire.OpRegMR, Count: 2, BadChecksum: true},
		"GET_STATS:RESOURCE_BUSY":              {Opcode: wire.OpGetStats, Count: 1, Status: wire.AdminResourceBusy},
		"DETACH_EVENT_COUNTER:BAD_OPCODE:1000": {Opcode: wire.OpDetachEventCounter, Count: 1000, Status: wire.AdminBadOpcode},
	} {
		got, err := parseAdminFault(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}
