package tracereport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/golden"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// serve starts a server for a collector, and gives its address. The test's end stops it.
func serve(t *testing.T, c *Collector) string {
	t.Helper()
	l, err := Listen(":0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, c) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

func get(t *testing.T, url, accept string) (http.Header, []byte) {
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
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v: %s", r.Status, err, b)
	}
	return r.Header, b
}

// scrape reads a scrape with Prometheus' own decoder.
func scrape(t *testing.T, url, accept string) map[string]*dto.MetricFamily {
	t.Helper()
	header, b := get(t, url+"/metrics", accept)
	d := expfmt.NewDecoder(bytes.NewReader(b), expfmt.ResponseFormat(header))
	families := make(map[string]*dto.MetricFamily)
	for {
		var f dto.MetricFamily
		if err := d.Decode(&f); errors.Is(err, io.EOF) {
			return families
		} else if err != nil {
			t.Fatalf("%v in: %s", err, b)
		}
		families[f.GetName()] = &f
	}
}

const protobuf = `application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited`

func TestScrapeAsText(t *testing.T) {
	url := serve(t, NewCollector(noon, MostSeries, func() ([]Metric, error) { return made().Metrics(), nil }))
	header, b := get(t, url+"/metrics", "text/plain;version=0.0.4")
	if !strings.HasPrefix(header.Get("Content-Type"), "text/plain") {
		t.Error(header)
	}
	golden.Check(t, "metrics.txt", b)
	f := scrape(t, url, "text/plain;version=0.0.4")["peerdirect_registration_duration_seconds"]
	if f == nil || len(f.Metric) != 6 || f.GetType() != dto.MetricType_HISTOGRAM {
		t.Fatal(f)
	}
	for _, m := range f.Metric {
		for _, l := range m.Label {
			if l.GetName() == "pid" || strings.ContainsAny(l.GetValue(), "\x1b\n") || l.GetValue() == "" {
				t.Errorf("label %v", l)
			}
		}
	}
}

// TestScrapeAsNative reads native histograms back and holds their quantiles, as
// Prometheus finds them, to those of the calls themselves.
func TestScrapeAsNative(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	h, exact := histogramOfAll(), []time.Duration(nil)
	for range 20000 {
		d := time.Duration(20000 * math.Exp(1.5*random.NormFloat64()))
		one := histogramOfAll(d)
		h.Add(&one)
		exact = append(exact, d)
	}
	url := serve(t, NewCollector(noon, MostSeries, func() ([]Metric, error) {
		return []Metric{{Name: "d_seconds", Help: "d", Type: Durations, Labels: []string{"a"}, Samples: []Sample{{Labels: []string{"b"}, Histogram: &h}}}}, nil
	}))
	got := scrape(t, url, protobuf)["d_seconds"].Metric[0].GetHistogram()
	if got.GetSchema() != nativeSchema || got.GetSampleCount() != 20000 || math.Abs(got.GetSampleSum()-h.Sum.Seconds()) > 1e-9 {
		t.Errorf("schema %d, %d calls, %v s", got.GetSchema(), got.GetSampleCount(), got.GetSampleSum())
	}
	if !got.GetCreatedTimestamp().AsTime().Equal(noon) {
		t.Errorf("created %v", got.GetCreatedTimestamp().AsTime())
	}
	if n := len(got.Bucket); n != classicLast-classicFirst+1 {
		t.Errorf("%d classic buckets beside the native ones", n)
	}
	for _, q := range []float64{.01, .5, .9, .99, .999} {
		below, total := 0, 0
		index := nativeQuantile(got, q)
		for _, d := range exact {
			total++
			// Wider than the bucket by a slot on each side.
			if d.Seconds() <= nativeBound(index)*1.0625 {
				below++
			}
		}
		above := 0
		for _, d := range exact {
			if d.Seconds() >= nativeBound(index-1)/1.0625 {
				above++
			}
		}
		if float64(below) < q*float64(total) || float64(above) < (1-q)*float64(total) {
			t.Errorf("quantile %v: bucket %d, up to %v s; %d are below, %d above", q, index, nativeBound(index), below, above)
		}
	}
}

// nativeQuantile finds the bucket of a quantile as Prometheus does.
func nativeQuantile(h *dto.Histogram, q float64) int {
	rank := q * float64(h.GetSampleCount())
	count, sum, index, delta := int64(0), 0.0, 0, 0
	for _, span := range h.PositiveSpan {
		index += int(span.GetOffset())
		for range span.GetLength() {
			count += h.PositiveDelta[delta]
			delta++
			if sum += float64(count); sum >= rank {
				return index
			}
			index++
		}
	}
	return index
}

// TestNativeBucketsNeverFall adds calls one by one: a bucket whose count falls is a
// restart to Prometheus.
func TestNativeBucketsNeverFall(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	h := histogramOfAll()
	last := map[int]int64{}
	for range 3000 {
		one := histogramOfAll(time.Duration(math.Exp(random.Float64() * 12)))
		h.Add(&one)
		now, zero := nativeBuckets(&h)
		sum := int64(zero)
		for i, n := range now {
			sum += n
			if n < last[i] {
				t.Fatalf("bucket %d falls from %d to %d", i, last[i], n)
			}
		}
		for i := range last {
			if _, ok := now[i]; !ok {
				t.Fatalf("bucket %d is gone", i)
			}
		}
		if sum != int64(h.Count) {
			t.Fatalf("%d calls in buckets, of %d", sum, h.Count)
		}
		last = now
	}
}

// TestClassicBucketsAreExact holds them to counting.
func TestClassicBucketsAreExact(t *testing.T) {
	all := []time.Duration{1, 1023, 1024, 1025, 4095, 4096, 1 << 20, 1<<34 - 1, 1 << 34, 20 * time.Minute}
	h := histogramOfAll(all...)
	buckets := classicBuckets(&h)
	for _, b := range buckets {
		want := uint64(0)
		for _, d := range all {
			if d.Seconds() < b.GetUpperBound() {
				want++
			}
		}
		if b.GetCumulativeCount() != want {
			t.Errorf("le %v: %d, want %d", b.GetUpperBound(), b.GetCumulativeCount(), want)
		}
	}
	if len(buckets) != classicLast-classicFirst+1 {
		t.Errorf("%d buckets", len(buckets))
	}
}

// TestSeriesAreBounded scrapes while hundreds of processes come: the series stay as
// few, the first ones stay themselves, and no call is lost.
func TestSeriesAreBounded(t *testing.T) {
	processes := 10
	url := serve(t, NewCollector(noon, 50, func() ([]Metric, error) {
		r := &Registrations{Tracing: Tracing{Attached: true}}
		for i := range processes {
			// Two processes of each name.
			r.Rows = append(r.Rows, row(1000+i, fmt.Sprintf("job %d", i/2), "rxe0", ebpfprobes.Register, ebpfprobes.Host, 4096, 3,
				map[ebpfprobes.Phase]time.Duration{ebpfprobes.Driver: 1000}))
			r.Failures = append(r.Failures, ebpfprobes.RegistrationFailure{PID: 1000 + i, Command: fmt.Sprintf("job %d", i/2), Err: 12, Count: 1})
		}
		return r.Metrics(), nil
	}))
	check := func(series int) {
		t.Helper()
		families := scrape(t, url, protobuf)
		for name, f := range families {
			if len(f.Metric) > 50 {
				t.Errorf("%s has %d series", name, len(f.Metric))
			}
		}
		f := families["peerdirect_registration_duration_seconds"]
		var calls uint64
		first := uint64(0)
		for _, m := range f.Metric {
			calls += m.GetHistogram().GetSampleCount()
			for _, l := range m.Label {
				if l.GetName() == "process" && l.GetValue() == "job 0" {
					first = m.GetHistogram().GetSampleCount()
				}
			}
		}
		if len(f.Metric) != series || calls != uint64(3*processes) || first != 6 {
			t.Errorf("%d processes: %d series of %d calls, job 0 has %d", processes, len(f.Metric), calls, first)
		}
		failed := 0.0
		for _, m := range families["peerdirect_registration_failures_total"].Metric {
			failed += m.GetCounter().GetValue()
		}
		if failed != float64(processes) {
			t.Errorf("%v failures of %d", failed, processes)
		}
	}
	check(5)
	processes = 400
	check(50)
	check(50)
}

func TestScrapeTellsErrors(t *testing.T) {
	url := serve(t, NewCollector(noon, MostSeries, func() ([]Metric, error) { return nil, errors.New("the map is gone") }))
	r, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(r.Body)
	r.Body.Close()
	if r.StatusCode != http.StatusInternalServerError || !strings.Contains(string(b), "the map is gone") {
		t.Errorf("%s: %s", r.Status, b)
	}
	for path, want := range map[string]int{"/": 200, "/other": 404} {
		r, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("%s: %s", path, r.Status)
		}
	}
}

func TestListen(t *testing.T) {
	l, err := Listen(":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !strings.HasPrefix(l.Addr().String(), "127.0.0.1:") {
		t.Errorf("listens on %v", l.Addr())
	}
	for _, bad := range []string{"", "9000", "host:port:1", ":99999", ":nosuchport"} {
		if l, err := Listen(bad); err == nil {
			l.Close()
			t.Errorf("%q was taken", bad)
		}
		if err := CheckAddress(bad); err == nil {
			t.Errorf("%q is taken for an address", bad)
		}
	}
	if _, err := Listen(l.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "choose another") {
		t.Error(err)
	}
}

// Names are what Prometheus' conventions ask for.
func TestMetricNames(t *testing.T) {
	for _, m := range made().Metrics() {
		if !model.LegacyValidation.IsValidMetricName(m.Name) || m.Help == "" || (m.Type == Counter) != strings.HasSuffix(m.Name, "_total") {
			t.Errorf("%s: %s", m.Name, m.Help)
		}
		for _, s := range m.Samples {
			if len(s.Labels) != len(m.Labels) {
				t.Errorf("%s: %d labels of %d", m.Name, len(s.Labels), len(m.Labels))
			}
		}
	}
}
