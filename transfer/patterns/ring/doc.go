// Package ring has collective operations of float32 on a ring of nodes: all-gather,
// reduce-scatter and, of both, all-reduce (sum).
//
// It is a pattern: a program on package engine to be read, run and copied. The
// reduction is done by the CPU in host memory, and what is sent is copied to and
// from registered slots. A version for accelerators would register the vectors
// themselves and reduce in a kernel; the protocol would be the same.
//
// # Parts and order
//
// A vector of n elements is divided in as many parts as there are nodes: part p of
// N is the elements [p*n/N, (p+1)*n/N), which may be none. In every step each node
// sends a part to the next node and takes one from the node before. N-1 steps make
// a reduce-scatter, after which node r has the sum of part r, or an all-gather,
// after which each has all parts.
//
// The order of summation is defined, whatever arrives when: part p is summed as
//
//	(…((x[p+1] + x[p+2]) + x[p+3]) + …) + x[p+N]
//
// where x[i] is the part at node i modulo N and each sum is rounded to float32. So
// results are the same to the bit at every node and in every run.
//
// # Protocol
//
// Parts travel in chunks. A node has two slots for the chunks that come, into which
// the node before writes by turns: chunk k goes to slot k mod 2. While one chunk is
// added, the next one comes. The notice of a chunk (number 1 or 2, by slot) says
// that it is there. When the node has taken it out, it gives a notice back (number 3
// or 4, by slot): a credit. Chunk k may be written when its slot has had k/2 credits,
// so no slot is overwritten before it was consumed. Rails keep no order, and of two
// chunks the second may come first: a number for each slot tells them apart, and of
// one slot no two chunks are under way.
//
// The header of a chunk says which operation it belongs to and how long the vectors
// are, so nodes that disagree find out.
//
// # When a node fails
//
// A ring cannot go on without one of its nodes. A node that meets an error, its
// context's end included, leaves both neighbours; they see it, and leave theirs. So
// all end with an error: at the latest after Options.Silence, in which a node finds
// that its neighbour gives nothing, and a message for each hop. Mostly it is sooner,
// when the engine finds that the neighbour is gone.
package ring
