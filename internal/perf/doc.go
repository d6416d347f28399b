// Package perf measures bandwidth and latency between two machines: over RDMA,
// and over TCP and shared memory as baselines, with the same loops, the same
// checks and the same table.
//
// Run is the whole of it. One side is the server, the other names it; they
// agree on the workload beside the data path (package exchange) and end with
// the same report, or with the same error. The loops are in C (loop.h says
// why).
//
// The measures are those that the field knows from perftest: bandwidth by the
// completions of requests, latency as the half of a round trip where a message
// is answered by one, and as the whole of it for reads and atomics.
package perf
