package transfer

import (
	"encoding/hex"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Schema names the form of a Result in JSON; it changes when a field does.
const Schema = "peerdirect.transfer/4"

// Roles of a Result.
const (
	RoleSender   = "sender"
	RoleReceiver = "receiver"
)

// Result is what one side knows of a transfer. Of a transfer that failed it is
// what was known by then.
type Result struct {
	Schema string `json:"schema"`
	Role   string `json:"role"`
	Error  string `json:"error,omitempty"`

	Bytes      uint64  `json:"bytes"` // of all iterations
	Pages      uint64  `json:"pages"` // of all iterations
	Iterations int     `json:"iterations"`
	Seconds    float64 `json:"seconds"` // from the first write to the last page's arrival; without filling and verifying
	PerSecond  float64 `json:"bytes_per_second"`
	Gbit       float64 `json:"gbit_per_second"`

	Writes  uint64   `json:"writes,omitempty"`  // RDMA WRITEs posted
	Notices uint64   `json:"notices"`           // done notices sent or received
	Latency *Latency `json:"latency,omitempty"` // sender
	Rate    Rate     `json:"rate"`

	Verified bool   `json:"verified"`
	BadPages int    `json:"bad_pages"`           // of the last iteration
	Bad      []int  `json:"bad_first,omitempty"` // the first of them
	PageSum  string `json:"page_checksum"`       // algorithm
	Checksum string `json:"checksum_sha256"`     // of the last iteration's page checksums

	ControlSent     uint64 `json:"control_sent_bytes"`     // by the TCP connection that connects
	ControlReceived uint64 `json:"control_received_bytes"` //

	// What the two sides said to each other over the rail, by SEND out of host
	// memory and into it; but for the receiver's last word, which the sender may not
	// wait for (16 bytes). Where the pages lie in an accelerator, a NIC touches
	// nothing else of host memory.
	MessagesSent     uint64 `json:"messages_sent_bytes"`
	MessagesReceived uint64 `json:"messages_received_bytes"`

	// What went through the TCP connections that link the software devices of two
	// processes, pages included. It is 0 for all other devices, whose pages do not
	// go through a socket.
	LinkSent     uint64 `json:"link_sent_bytes"`
	LinkReceived uint64 `json:"link_received_bytes"`

	Conditions Conditions `json:"conditions"`

	// PageOK tells of each page of the last iteration whether it arrived as it
	// was sent. Only the receiver knows.
	PageOK []bool `json:"-"`
}

// Conditions are what a result depends on.
type Conditions struct {
	Device     string  `json:"device"` // of several the first and the last: efa_0..efa_3
	NICs       int     `json:"nics"`
	Embedded   bool    `json:"embedded"`  // the devices are software in this process
	Path       string  `json:"data_path"` // how work gets into the queues
	Memory     string  `json:"memory"`    // what this side's pages lie in: "host", or an exporter of dma-bufs
	PeerMemory string  `json:"peer_memory"`
	Port       int     `json:"port"`
	Transport  string  `json:"transport"`
	LinkLayer  string  `json:"link_layer"`
	GIDIndex   int     `json:"gid_index"`
	MTU        int     `json:"mtu_bytes"`
	Queues     int     `json:"queue_pairs"` // of each NIC
	Kernel     string  `json:"kernel"`
	Local      string  `json:"local_address"`
	Remote     string  `json:"remote_address"`
	PageSize   int     `json:"page_size_bytes"`
	PagesEach  int     `json:"pages_per_iteration"`
	Stride     int     `json:"stride_bytes"`
	Seed       uint64  `json:"scatter_seed"`
	Batch      int     `json:"batch_writes,omitempty"`
	Depth      int     `json:"depth_writes,omitempty"`
	TimeoutSec float64 `json:"timeout_seconds"`
}

// Latency are percentiles, in microseconds, of the time from posting a batch
// of writes to its last completion.
type Latency struct {
	Of    string  `json:"of"` // "batch"
	Count int64   `json:"count"`
	Min   float64 `json:"min_us"`
	P50   float64 `json:"p50_us"`
	P90   float64 `json:"p90_us"`
	P99   float64 `json:"p99_us"`
	P999  float64 `json:"p999_us"`
	Max   float64 `json:"max_us"`
}

// histogram of durations from 1 us to 10 minutes, kept to 3 digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(100*time.Nanosecond), int64(10*time.Minute), 3)
}

func latencyOf(h *hdrhistogram.Histogram) *Latency {
	if h.TotalCount() == 0 {
		return nil
	}
	us := func(ns int64) float64 { return float64(ns) / 1e3 }
	return &Latency{
		Of: "batch", Count: h.TotalCount(), Min: us(h.Min()), Max: us(h.Max()),
		P50: us(h.ValueAtQuantile(50)), P90: us(h.ValueAtQuantile(90)),
		P99: us(h.ValueAtQuantile(99)), P999: us(h.ValueAtQuantile(99.9)),
	}
}

// moved enters what was moved in so much time.
func (r *Result) moved(l Layout, iterations int, took time.Duration) {
	r.Iterations = iterations
	r.Pages = uint64(l.Pages) * uint64(iterations)
	r.Bytes = l.Bytes() * uint64(iterations)
	if r.Seconds = took.Seconds(); r.Seconds > 0 {
		r.PerSecond = float64(r.Bytes) / r.Seconds
		r.Gbit = r.PerSecond * 8 / 1e9
	}
}

func (r *Result) layout(l Layout) {
	c := &r.Conditions
	c.PageSize, c.PagesEach, c.Seed = l.PageSize, l.Pages, l.Seed
	c.Stride = l.Stride * l.PageSize
}

func (r *Result) rail(i Info) {
	c := &r.Conditions
	c.Device, c.Port, c.Transport, c.LinkLayer = i.Device, i.Port, i.Transport, i.LinkLayer
	c.GIDIndex, c.MTU, c.Queues = i.GIDIndex, i.MTU, i.Queues
	c.NICs, c.Embedded, c.Path = i.NICs, i.Embedded, i.Path
}

// verdict enters how the last iteration's pages compare.
func (r *Result) verdict(bad []int, count int, digest [digestSize]byte) {
	r.BadPages, r.Bad = count, bad
	r.Verified = count == 0
	r.PageSum, r.Checksum = "crc32c", hex.EncodeToString(digest[:])
}
