package tracereport

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/internal/freeport"
)

// TestPrometheusScrapes has a Prometheus scrape, and asks it what it took: series,
// counts, and quantiles as its own language has them.
func TestPrometheusScrapes(t *testing.T) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("needs the program prometheus (Debian: prometheus)")
	}
	random := rand.New(rand.NewPCG(7, 8))
	h := histogramOfAll()
	for range 20000 {
		one := histogramOfAll(time.Duration(20000 * math.Exp(1.5*random.NormFloat64())))
		h.Add(&one)
	}
	exporter := serve(t, NewCollector(time.Now(), MostSeries, func() ([]Metric, error) {
		return append(made().Metrics(), Metric{Name: "made_seconds", Help: "made up", Type: Durations, Labels: []string{"a"},
			Samples: []Sample{{Labels: []string{`b"\` + "\n"}, Histogram: &h}}}), nil
	}))
	calls, failures := 0.0, 0.0
	for i := range made().Rows {
		calls += float64(made().Rows[i].Whole.Count)
	}
	for _, f := range made().Failures {
		failures += float64(f.Count)
	}
	const duration = "peerdirect_registration_duration_seconds"
	for name, with := range map[string]struct {
		flags  []string
		width  float64 // of a bucket, that a quantile may be off by
		bucket string
		want   map[string]float64
	}{
		"classic buckets": {nil, 2, "made_seconds_bucket", map[string]float64{
			"count(" + duration + "_bucket)":       6 * (classicLast - classicFirst + 2),
			"sum(" + duration + "_count)":          calls,
			"count(" + duration + ")":              math.NaN(),
			"made_seconds_count{a='b\"\\\\\\n'}":   20000,
			"sum(" + duration + "_sum) > bool 0":   1,
			`sum(made_seconds_bucket{le="+Inf"})`:  20000,
			"count(peerdirect_trace_lost_total)>0": float64(len(losses(made().Losses))),
		}},
		"native histograms": {[]string{"--enable-feature=native-histograms"}, math.Exp2(1.0 / nativePerOctave), "made_seconds", map[string]float64{
			"count(" + duration + ")":                       6,
			"sum(histogram_count(" + duration + "))":        calls,
			"count(" + duration + "_bucket)":                math.NaN(),
			"histogram_count(made_seconds{a='b\"\\\\\\n'})": 20000,
			"histogram_sum(made_seconds)":                   h.Sum.Seconds(),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := startPrometheus(t, program, exporter, with.flags)
			p.await(t, "up", 1)
			with.want["sum(peerdirect_registration_failures_total)"] = failures
			for query, want := range with.want {
				if got := p.query(t, query); got != want && !(math.IsNaN(got) && math.IsNaN(want)) && math.Abs(got-want) > 1e-9*math.Abs(want) {
					t.Errorf("%s: %v, want %v", query, got, want)
				}
			}
			for _, q := range []float64{.1, .5, .9, .99} {
				got := p.query(t, fmt.Sprintf("histogram_quantile(%v, %s)", q, with.bucket))
				ours := h.Quantile(q).Seconds()
				// Ours may be off by a slot.
				if !(got < ours*with.width*1.0625 && got > ours/with.width/1.0625) {
					t.Errorf("quantile %v: %v s, ours is %v s", q, got, ours)
				}
				t.Logf("quantile %v: %v s, ours %v s", q, got, ours)
			}
		})
	}
}

// prometheusServer is a running Prometheus.
type prometheusServer struct{ url string }

// startPrometheus starts one that scrapes the exporter each second; the test's end stops it.
func startPrometheus(t *testing.T, program, exporter string, flags []string) prometheusServer {
	t.Helper()
	address := freeport.Addr(freeport.TCP(t))
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := "scrape_configs:\n- job_name: peerdirect\n  scrape_interval: 1s\n  static_configs:\n  - targets: ['" + strings.TrimPrefix(exporter, "http://") + "']\n"
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(program, append([]string{"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(dir, "data"),
		"--web.listen-address=" + address}, flags...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if said, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("prometheus: %s", said)
		}
	})
	return prometheusServer{"http://" + address}
}

// await asks until there is that answer.
func (p prometheusServer) await(t *testing.T, query string, want float64) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		got, err := p.ask(query)
		if err == nil && got == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v, %v after a minute", query, got, err)
		}
	}
}

func (p prometheusServer) query(t *testing.T, query string) float64 {
	t.Helper()
	v, err := p.ask(query)
	if err != nil {
		t.Errorf("%s: %v", query, err)
	}
	return v
}

// ask gives the only value of a query's answer; NaN is none.
func (p prometheusServer) ask(query string) (float64, error) {
	r, err := http.Get(p.url + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err
	}
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil || r.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s: %w", r.Status, body, err)
	}
	if len(answer.Data.Result) == 0 {
		return math.NaN(), nil
	}
	if n := len(answer.Data.Result); n > 1 {
		return 0, fmt.Errorf("%d answers: %s", n, body)
	}
	text, _ := answer.Data.Result[0].Value[1].(string)
	return strconv.ParseFloat(text, 64)
}
