package tracereport

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/common/expfmt"
)

// ServeHTTP answers a scrape: with delimited protocol buffers if they are asked for before
// text, else with text.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	format := expfmt.NegotiateAccept(r.Header, expfmt.FmtProtoDelim, expfmt.FmtText)
	body, err := c.encode(format)
	if err != nil {
		http.Error(w, fmt.Sprintf("what was counted cannot be read: %v", err), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", string(format))
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

// encode gives a whole scrape, so that an error can still be answered.
func (c *Collector) encode(format expfmt.Format) ([]byte, error) {
	metrics, err := c.collect()
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	e := expfmt.NewEncoder(&body, format)
	for _, f := range families(metrics, c.began) {
		if err := e.Encode(f); err != nil {
			return nil, fmt.Errorf("%s: %w", f.GetName(), err)
		}
	}
	return body.Bytes(), nil
}

// wantsGzip tells whether a weight above 0 is given to gzip (RFC 9110, section 12.5.3).
func wantsGzip(encodings []string) bool {
	for one := range strings.SplitSeq(strings.Join(encodings, ","), ",") {
		coding, parameters, err := mime.ParseMediaType(one)
		if err != nil || coding != "gzip" {
			continue
		}
		weight, err := strconv.ParseFloat(parameters["q"], 64)
		return parameters["q"] == "" || err == nil && weight > 0
	}
	return false
}
