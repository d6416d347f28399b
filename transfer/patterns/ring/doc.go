// Package ring has collective operations of float32 on a ring of nodes: all-gather,
// reduce-scatter and, of both, all-reduce (sum).
//
// It is a pattern: a program on package engine to be read, run and copied. There are
// two ways. Operations of a Ring copy what is sent to and from registered slots, from
// memory of any kind. Those of a Vector, whose memory is registered, have nodes write
// straight into each other's. The reduction is done by the CPU in both.
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
// Parts travel in chunks. A node has four slots for the chunks that come, into which
// the node before writes by turns: chunk k goes to slot k mod 4. While one chunk is
// added, others come. The notice of a chunk (number 1 to 4, by slot) says that it is
// there. When the node has taken it out, it gives a notice back (number 5 to 8, by
// slot): a credit. Chunk k may be written when its slot has had k/4 credits, so no
// slot is overwritten before it was consumed. Rails keep no order, and of two chunks
// the second may come first: a number for each slot tells them apart, and of one slot
// no two chunks are under way.
//
// The header of a chunk, or the plan, says which operation it belongs to and how long
// the vectors are, so nodes that disagree find out; where one uses slots and another
// does not, by silence.
//
// # Without slots
//
// An operation on vectors begins with a plan (number 9): each node tells the node
// before that it is ready, and for what. From then on that one writes chunks into the
// vector, or, in the steps that add, into a scratch of the vector's size, each at the
// place that it has in the vector. Every chunk of an operation has a number of its own
// (from 11 on), so it does not matter in which order they come, and the writes need no
// credits: nothing is written twice. A node passes a chunk on as soon as it has it, and
// the all-gather of an all-reduce begins with the first chunk of the node's sum.
//
// A write that was counted may be done again until it has ended at the writer, where a
// rail failed. So an operation is over when the node before says (number 10) that all
// its writes have ended, and no memory that a neighbour writes is changed before.
//
// What is copied: of memory in the process nothing. Of memory outside, an
// accelerator's, nothing in an all-gather: the NICs read and write it. In an
// all-reduce the CPU needs the elements that it adds: each node copies N-1 parts out,
// and the sum of one part in; the first step, and the all-gather behind the sums, are
// direct. Partial sums travel between scratches in host memory. By slots a node
// copies 3(N-1) parts out and 2(N-1) in.
//
// # When a node fails
//
// A ring cannot go on without one of its nodes. A node that meets an error, its
// context's end included, leaves both neighbours; they see it, and leave theirs. So
// all end with an error: at the latest after Options.Silence, in which a node finds
// that its neighbour gives nothing, and a message for each hop. Mostly it is sooner,
// when the engine finds that the neighbour is gone.
package ring
