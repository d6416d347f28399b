package pages

import (
	"encoding/hex"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
)

// Schema names the form of a Result in JSON; it changes when a field does.
const Schema = "peerdirect.transfer/5"

// Roles of a Result.
const (
	RoleSender   = "sender"
	RoleReceiver = "receiver"
)

// Result is what one side knows of a transfer with one peer. Of a transfer that
// failed it is what was known by then.
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

	Writes  uint64   `json:"writes,omitempty"`  // RDMA WRITEs that this side asked for, one for each run of pages
	Reads   uint64   `json:"reads,omitempty"`   // and RDMA READs
	Notices uint64   `json:"notices"`           // done notices sent or received
	Latency *Latency `json:"latency,omitempty"` // of the side that writes or reads
	Rate    Rate     `json:"rate"`

	Rails []Rail `json:"rails"` // this side's NICs
	Group *Group `json:"group,omitempty"`

	Verified bool   `json:"verified"`
	BadPages int    `json:"bad_pages"`           // of the last iteration
	Bad      []int  `json:"bad_first,omitempty"` // the first of them
	PageSum  string `json:"page_checksum"`       // algorithm
	Checksum string `json:"checksum_sha256"`     // of the last iteration's page checksums

	ControlSent     uint64 `json:"control_sent_bytes"`     // by the TCP connection that connects
	ControlReceived uint64 `json:"control_received_bytes"` //

	// What the two sides said to each other over the rails, by SEND out of host
	// memory and into it, without 16 bytes of the engine's for each message. Where
	// the pages lie in an accelerator, a NIC touches nothing else of host memory.
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

// Rail is one NIC of this side, and what became of it from the connection to the
// end, for all transfers of the node at that time.
type Rail struct {
	Device    string `json:"device"`
	Transport string `json:"transport"`
	GID       string `json:"gid"`
	Path      string `json:"data_path"` // "direct" where work gets into the queues without libibverbs
	Bytes     uint64 `json:"bytes"`     // written or read by this side, and sent in messages
	Failed    uint64 `json:"failed"`    // requests that came back undone; other NICs did them again
	Losses    uint64 `json:"losses"`    // connections of the NIC that failed
}

// Group is all of a transfer to several receivers.
type Group struct {
	Receivers int     `json:"receivers"`
	Done      int     `json:"done"` // receivers whose pages are all verified
	Bytes     uint64  `json:"bytes"`
	Seconds   float64 `json:"seconds"` // from the first receiver's first write to the last one's arrival, without filling and verifying
	PerSecond float64 `json:"bytes_per_second"`
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
	Peer       string  `json:"peer"` // who the peer has proved to be
	Local      string  `json:"local_address"`
	Remote     string  `json:"remote_address"`
	PageSize   int     `json:"page_size_bytes"`
	PagesEach  int     `json:"pages_per_iteration"`
	Stride     int     `json:"stride_bytes"`
	Seed       uint64  `json:"scatter_seed"`
	Batch      int     `json:"batch_runs"`
	Depth      int     `json:"depth_runs"`
	TimeoutSec float64 `json:"timeout_seconds"`
}

// Latency are percentiles, in microseconds, of the time from handing a batch of
// runs to the engine to its end: all completed and, where it was written, the
// notice as well.
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

// moved enters what was moved in so much time. It is not compared yet: what is known
// of the iteration before says nothing of this one's pages.
func (r *Result) moved(l Layout, iterations int, took time.Duration) {
	r.Verified, r.BadPages, r.Bad, r.Checksum, r.PageOK = false, 0, nil, "", nil
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

// rails enters the NICs that are used, of which there is at least one.
func (r *Result) rails(used []transfer.Info) {
	c, i := &r.Conditions, used[0]
	c.Device, c.Port, c.Transport, c.LinkLayer = i.Device, i.Port, i.Transport, i.LinkLayer
	c.GIDIndex, c.MTU, c.Queues = i.GIDIndex, i.MTU, i.Queues
	c.NICs, c.Embedded, c.Path = len(used), i.Embedded, i.Path
	if n := len(used); n > 1 {
		c.Device += ".." + used[n-1].Device
	}
	for _, i := range used {
		r.Rails = append(r.Rails, Rail{Device: i.Device, Transport: i.Transport, GID: i.GID, Path: i.Path})
	}
}

// counted enters what became of the NICs between two looks at them.
func (r *Result) counted(before, after []engine.RailStats) {
	for i := range r.Rails {
		of, b, a := &r.Rails[i], before[i], after[i]
		of.Bytes, of.Failed, of.Losses = a.Bytes-b.Bytes, a.Failed-b.Failed, a.Losses-b.Losses
	}
}

// verdict enters how the last iteration's pages compare.
func (r *Result) verdict(bad []int, count int, digest [digestSize]byte) {
	r.BadPages, r.Bad = count, bad
	r.Verified = count == 0
	r.PageSum, r.Checksum = "crc32c", hex.EncodeToString(digest[:])
}
