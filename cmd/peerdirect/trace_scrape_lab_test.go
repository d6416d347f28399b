//go:build lab

package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// checkScrapes scrapes a trace, as text and with native histograms.
func checkScrapes(t *testing.T, tr *tracing, device string, want uint64) {
	t.Helper()
	_, url, ok := strings.Cut(strings.TrimSpace(tr.tells(t, "/metrics")), "metrics at ")
	url, _, _ = strings.Cut(url, "\n")
	if !ok || !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Fatalf("standard error: %s", tr.told())
	}
	for _, accept := range []string{"text/plain", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"} {
		families := scrapeTrace(t, url, accept)
		var calls uint64
		for _, m := range families["peerdirect_registration_duration_seconds"].GetMetric() {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["process"] == "registrar" && labels["operation"] == "register" && labels["device"] == device {
				calls += m.GetHistogram().GetSampleCount()
				if native := len(m.GetHistogram().GetPositiveSpan()) > 0; native != strings.Contains(accept, "protobuf") {
					t.Errorf("%s: native histograms: %v", accept, native)
				}
			}
		}
		if calls != want {
			t.Errorf("%s: %d calls, want %d", accept, calls, want)
		}
		for _, m := range families["peerdirect_trace_lost_total"].GetMetric() {
			if m.GetCounter().GetValue() != 0 {
				t.Errorf("lost: %v", m)
			}
		}
	}
}

func scrapeTrace(t *testing.T, url, accept string) map[string]*dto.MetricFamily {
	t.Helper()
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	families := make(map[string]*dto.MetricFamily)
	for d := expfmt.NewDecoder(bytes.NewReader(b), expfmt.ResponseFormat(r.Header)); ; {
		var f dto.MetricFamily
		if err := d.Decode(&f); errors.Is(err, io.EOF) {
			return families
		} else if err != nil {
			t.Fatalf("%v in %s", err, b)
		}
		families[f.GetName()] = &f
	}
}
