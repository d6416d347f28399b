package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/freeport"
	"github.com/peerdirect/peerdirect/internal/perf"
)

// perfRun runs one command line.
func perfRun(t *testing.T, line string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), strings.Fields(line), strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestPerfUsage(t *testing.T) {
	for line, want := range map[string]string{
		"perf push":                               "push",
		"perf write rate":                         "rate",
		"perf write bw a b":                       "at most 1",
		"perf write bw -s 12Q":                    "12Q",
		"perf write bw -D 1 -n 5":                 "exclude",
		"perf write bw -D never":                  "never",
		"perf write bw -T 0":                      "above 0",
		"perf write lat -q 2":                     "one queue pair",
		"perf atomic bw -s 16":                    "8 bytes",
		"perf write bw --transport udp":           "rdma, tcp or memcpy",
		"perf write bw --transport memcpy host":   "no address",
		"perf write bw --listen 127.0.0.1 host":   "--listen",
		"perf write bw --no-such-flag":            "no-such-flag",
		"perf write lat -e":                       "no event",
		"perf write bw --post_list 200":           "-l 200",
		"perf send bw --transport tcp -q 5000 -p": "argument",
	} {
		code, stdout, stderr := perfRun(t, line)
		if code != exitUsage || !strings.Contains(stderr, want) || stdout != "" {
			t.Errorf("%s: exit %d, stdout %q, stderr %q; want exit %d and %q", line, code, stdout, stderr, exitUsage, want)
		}
	}
	if code, _, stderr := perfRun(t, "perf atomic lat --transport tcp"); code != exitUnsupported || !strings.Contains(stderr, "atomic") {
		t.Errorf("atomic operations over TCP: exit %d, %q", code, stderr)
	}
}

func TestPerfWithoutADevice(t *testing.T) {
	if d, err := os.ReadDir("/sys/class/infiniband"); err == nil && len(d) > 0 {
		t.Skip("needs a machine without an RDMA device")
	}
	code, _, stderr := perfRun(t, "perf write bw")
	if code != exitNoDevice || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

func TestPerfJSONIsAlone(t *testing.T) {
	code, stdout, stderr := perfRun(t, "perf write bw --transport memcpy -n 20 --verify --json -F --report_gbits")
	var r perf.Report
	if err := json.Unmarshal([]byte(stdout), &r); code != exitOK || err != nil || stderr != "" {
		t.Fatalf("exit %d, %v, stderr %q, stdout %q", code, err, stderr, stdout)
	}
	if r.Schema != perf.Schema || len(r.Results) != 1 || r.Results[0].Iterations != 20 || !*r.Results[0].Verified {
		t.Errorf("%+v", r)
	}
}

func TestPerfBothSidesPrintTheSame(t *testing.T) {
	line := fmt.Sprintf("perf send lat --transport tcp -n 20 -p %d -T 10s", freeport.TCP(t))
	type result struct {
		code           int
		stdout, stderr string
	}
	server := make(chan result, 1)
	go func() {
		var r result
		r.code, r.stdout, r.stderr = perfRun(t, line)
		server <- r
	}()
	code, stdout, stderr := perfRun(t, line+" 127.0.0.1")
	s := <-server
	if code != exitOK || s.code != exitOK || stderr != "" || s.stderr != "" {
		t.Fatalf("client: exit %d, %q; server: exit %d, %q", code, stderr, s.code, s.stderr)
	}
	if stdout != s.stdout || !strings.Contains(stdout, "t_typical[usec]") || !strings.Contains(stdout, "\n 2          20 ") {
		t.Errorf("client:\n%s\nserver:\n%s", stdout, s.stdout)
	}
}
