// Package weights moves the weights of a model from the nodes that train it to the
// nodes that serve it, many to many, by a schedule that is made once.
//
// It is a pattern: a program on package engine to be read, run and copied.
//
// # Schedule
//
// Each side has its own sharding ([Split]): a tensor is cut along one dimension, and
// each part is held by one rank or by several. [Plan] computes from shapes and
// shardings alone which rank sends what to whom, so every node computes it for
// itself and all have the same. For each part that a receiver needs it takes what
// overlaps of the senders' parts, cuts it into pieces of at most a chunk, and gives
// the pieces, the longest first, to the rank that has least to send among those that
// hold it. What a receiver gets is what it needs and no more, each byte once. Where
// every rank could send everything, no two ranks differ by more than a chunk.
//
// Senders begin with different receivers and go around them, so that they do not all
// write to one at a time.
//
// # Protocol
//
// The number of pieces from each sender to each receiver is known from the schedule,
// so no message announces anything.
//
//  1. A receiver that can take a version writes its number into its place at every
//     sender that has something for it. The notice (number 1) says so: the memory may
//     be written from now on.
//  2. A sender that has the version writes each piece from its own memory into its
//     place in the receiver's, with a notice (number 2) for each, and the version into
//     its own place at the receiver, with one notice more.
//  3. When a receiver has counted that many notices of every sender, all is there. It
//     looks whether all have sent the version that it asked for.
//
// # When a node fails
//
// What a pair has counted belongs to their two engines' runs. A node that was lost, or
// that left, is attached anew, as a new peer, and the two begin at zero: the receiver
// asks for the version again and gets this sender's pieces again. The pieces of other
// senders stay. A sender does not wait for one receiver with the others' version
// unsent: it goes on without those that fail, and its error names them.
package weights
