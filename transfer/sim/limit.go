package sim

import "time"

// Limit is what the model allows whatever the engine does, in closed form.
type Limit struct {
	Gbits float64 `json:"gbit_per_s"` // of a node that writes
	By    string  `json:"by"`         // what sets it: line, requests, CPU, core or window
	// Latency is the least that the mean of a transfer's can be: what one takes
	// alone, or, by Little's law, what so many at once take at the rate above.
	Latency time.Duration `json:"latency_ns"`
	// Alone is the former.
	Alone time.Duration `json:"alone_ns"`
	// Posting is, of Scatter, the least from the call to the last post.
	Posting time.Duration `json:"call_to_last_post_ns,omitzero"`
}

// limit computes it. Of a transfer each page is a request, and one is the notice,
// unless a single page carries it; what a scatter writes to all peers counts as one
// transfer.
//
//   - A NIC is occupied by a page for its bytes or Request, whichever is longer,
//     and the notice for Request; all of it goes by all NICs evenly.
//   - A worker's core spends a command on each operation at least, a post and a
//     completion on each request, and a doorbell on each full batch of them; all
//     of it goes by all workers evenly.
//   - The fabric's core carries its share of what all nodes' NICs do, for those
//     that write.
//   - No more than the window's transfers end in the time that one takes alone.
//   - Where all is measured, from the first call on, the last transfer's way and
//     its notice come on top.
func (r *Run) limit() Limit {
	s, m, p := r.Shape, &r.Model, r.Model.Costs.prices()
	request, latency := Of(m.Request), Of(m.Latency)
	operations, window := 1, r.Window
	if r.Pattern == Scatter {
		operations, window = r.Nodes-1, 1
	}
	pages := Time(operations * r.Pages)
	notices := Time(operations)
	if r.Pages == 1 {
		notices = 0
	}
	requests := pages + notices
	bits := float64(pages) * float64(r.Page) * 8
	onNICs := pages * max(s.wire(r.Page), request)
	onCores := Time(operations)*p.command + requests*(p.post+p.completion) + requests*p.doorbell/Time(r.Batch)

	rate := func(per Time, over int) float64 { return bits * float64(over) / per.Seconds() / 1e9 }
	l := Limit{Gbits: rate(onNICs+notices*request, s.NICs), By: "line"}
	if s.wire(r.Page) < request {
		l.By = "requests"
	}
	if g := rate(onCores, s.Workers); g < l.Gbits {
		l.Gbits, l.By = g, "CPU"
	}
	if core := s.Rate() / 1e9 / m.Oversubscribed * float64(r.Nodes) / float64(r.writers()); core < l.Gbits {
		l.Gbits, l.By = core, "core"
	}

	post := p.doorbell + p.post
	found := p.poll + p.completion
	ways := p.step + p.command + post + 2*latency + found + post + request + 2*latency + found
	alone := ways + max(onNICs/Time(s.NICs), request)
	if r.Pages == 1 { // a page in one request, of which a NIC has a few
		each := Time((operations + s.NICs - 1) / s.NICs)
		if one := p.step + p.command + post + 2*latency + found; one+each*max(s.wire(r.Page), request) < alone {
			ways, alone = one, one+each*max(s.wire(r.Page), request)
		}
	}
	if g := float64(window) * rate(alone, 1); g < l.Gbits {
		l.Gbits, l.By = g, "window"
	}
	l.Alone = alone.Duration()
	l.Latency = max(l.Alone, time.Duration(float64(window)*bits/l.Gbits))
	if r.Pattern == Weights {
		all := float64(r.Nodes/2) * bits
		l.Gbits = all / (all/l.Gbits + 1e9*ways.Seconds())
	}
	if r.Pattern == Scatter {
		share := Time((operations + s.Workers - 1) / s.Workers)
		l.Posting = (p.step + share*(p.command+p.post) + p.doorbell).Duration()
	}
	return l
}
