package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/dmabufprobe"
	"github.com/peerdirect/peerdirect/internal/golden"
)

func TestDMABufProbe(t *testing.T) {
	code, stdout, stderr := dmabufRun(t, "probe", "--embedded", "--exporter", "host")
	if code != exitOK || stderr != "" {
		t.Errorf("exit %d, %s", code, stderr)
	}
	golden.Check(t, "dmabuf-probe.txt", []byte(stdout))

	code, stdout, _ = dmabufRun(t, "probe", "--embedded", "--json")
	var m dmabufprobe.Matrix
	d := json.NewDecoder(strings.NewReader(stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil || code != exitOK || m.Schema != dmabufprobe.Schema || m.Cell("host", "embedded") == nil {
		t.Errorf("exit %d, %v\n%s", code, err, stdout)
	}

	code, stdout, stderr = dmabufRun(t, "probe", "--embedded", "--exporter", "tape")
	if code != exitUsage || stdout != "" || !strings.Contains(stderr, "there are udmabuf") {
		t.Errorf("no such exporter: exit %d, %s%s", code, stdout, stderr)
	}
	code, stdout, _ = dmabufRun(t, "probe", "--device", "no_such")
	if code != exitNoDevice || stdout != "" {
		t.Errorf("no such device: exit %d, %s", code, stdout)
	}
}
