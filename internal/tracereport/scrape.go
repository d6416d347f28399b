package tracereport

import (
	"compress/gzip"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

const (
	textFormat     = "text/plain; version=0.0.4; charset=utf-8"
	protobufFormat = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
)

// ServeHTTP answers a scrape in the format that is asked for.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	metrics, err := c.collect()
	if err != nil {
		http.Error(w, fmt.Sprintf("what was counted cannot be read: %v", err), http.StatusInternalServerError)
		return
	}
	protobuf := wantsProtobuf(r.Header.Values("Accept"))
	var body []byte
	for i := range metrics {
		if protobuf {
			body = appendProtobuf(body, &metrics[i], c.began)
		} else {
			body = appendText(body, &metrics[i])
		}
	}
	h := w.Header()
	h.Set("Content-Type", textFormat)
	if protobuf {
		h.Set("Content-Type", protobufFormat)
	}
	h.Add("Vary", "Accept")
	h.Add("Vary", "Accept-Encoding")
	to := io.Writer(w)
	if wantsGzip(r.Header.Values("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		to = z
	}
	to.Write(body) // an error is of one who has gone
}

// choices calls back for each choice of a header, with its weight, 0 to 1 (RFC 9110,
// section 12.4.2). What is not understood is passed over.
func choices(header []string, each func(choice string, parameters map[string]string, weight float64)) {
	for one := range strings.SplitSeq(strings.Join(header, ","), ",") {
		choice, parameters, err := mime.ParseMediaType(one)
		if err != nil {
			continue
		}
		weight := 1.0
		if q, ok := parameters["q"]; ok {
			if weight, err = strconv.ParseFloat(q, 64); err != nil || !(weight >= 0 && weight <= 1) {
				continue
			}
		}
		each(choice, parameters, weight)
	}
}

// wantsProtobuf tells whether delimited protocol buffers are asked for, before text.
func wantsProtobuf(accept []string) (wanted bool) {
	best := 0.0
	choices(accept, func(choice string, p map[string]string, weight float64) {
		protobuf := choice == "application/vnd.google.protobuf" && p["encoding"] == "delimited" &&
			p["proto"] == "io.prometheus.client.MetricFamily"
		text := choice == "text/plain" && (p["version"] == "" || p["version"] == "0.0.4") || choice == "text/*" || choice == "*/*"
		if (protobuf || text) && weight > best { // of equal ones the first
			best, wanted = weight, protobuf
		}
	})
	return wanted
}

func wantsGzip(encodings []string) (wanted bool) {
	choices(encodings, func(choice string, _ map[string]string, weight float64) {
		wanted = wanted || choice == "gzip" && weight > 0
	})
	return wanted
}
