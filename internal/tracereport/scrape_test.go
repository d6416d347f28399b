package tracereport

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// The Accept headers of Prometheus 2.42 and 3, without and with native histograms.
func TestFormatIsNegotiated(t *testing.T) {
	const text = "text/plain; version=0.0.4; charset=utf-8"
	const buffers = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
	c := NewCollector(noon, MostSeries, func() ([]Metric, error) { return nil, nil })
	for accept, want := range map[string]string{
		"": text, "*/*": text, "text/html": text, "text/plain": text,
		protobuf:                            buffers,
		protobuf + ";q=0.3,text/plain;q=.5": text,
		protobuf + ",text/plain":            buffers,
		"text/plain," + protobuf:            text,
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text":                                                                   text,
		"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1":                   text,
		protobuf + ",application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1": buffers,
		protobuf + ";q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,*/*;q=0.1":   buffers,
	} {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s", accept, got)
		}
	}
	for encoding, want := range map[string]bool{"": false, "gzip": true, "identity": false, "deflate, gzip;q=0.5": true, "gzip;q=0": false} {
		if got := wantsGzip([]string{encoding}); got != want {
			t.Errorf("%q: gzip %v", encoding, got)
		}
	}
}

// TestScrapeIsCompressed compares with what is served plain; HEAD has no body.
func TestScrapeIsCompressed(t *testing.T) {
	c := NewCollector(noon, MostSeries, func() ([]Metric, error) { return made().Metrics(), nil })
	ask := func(method, encoding string) *http.Response {
		t.Helper()
		r := httptest.NewRequest(method, "/metrics", nil)
		r.Header.Set("Accept-Encoding", encoding)
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		return w.Result()
	}
	plain, err := io.ReadAll(ask("GET", "identity").Body)
	if err != nil {
		t.Fatal(err)
	}
	r := ask("GET", "gzip")
	z, err := gzip.NewReader(r.Body)
	if err != nil || r.Header.Get("Content-Encoding") != "gzip" {
		t.Fatal(err, r.Header)
	}
	if unpacked, err := io.ReadAll(z); err != nil || !bytes.Equal(unpacked, plain) || len(plain) == 0 {
		t.Errorf("%v: %d bytes, %d plain", err, len(unpacked), len(plain))
	}
	url := serve(t, c)
	head, err := http.Head(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer head.Body.Close()
	if b, err := io.ReadAll(head.Body); err != nil || len(b) != 0 || head.StatusCode != http.StatusOK || !strings.HasPrefix(head.Header.Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Error(err, len(b), head.Status, head.Header)
	}
}

// TestScrapesAtOnce holds some up: one too many is refused, and told why.
func TestScrapesAtOnce(t *testing.T) {
	held, reading := make(chan struct{}), make(chan struct{}, 2)
	h := atMost(2, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reading <- struct{}{}; <-held }))
	for range 2 {
		go h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		select {
		case <-reading:
		case <-time.After(10 * time.Second):
			t.Fatal("is not answered")
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	close(held)
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "try again") {
		t.Error(w.Code, w.Body)
	}
}
