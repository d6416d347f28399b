// Package kvcache moves the pages of a KV cache from a prefill node to a decode
// node, layer by layer while the prefill computes, and lets the decode node take
// its pages back at any time.
//
// It is a pattern: a program on package engine to be read, run and copied. It
// looks after one pair of nodes; a node that works with many has one [Prefill] or
// [Decode] for each.
//
// # Memory
//
// Both nodes have a cache: for each layer an array of pages, the layers one after
// the other ([Shape]). A request has the same page numbers in every layer. The
// caches may be of different sizes; layers and page size are the same. Beside it
// each node has a small region of records, one for each lane.
//
// # Protocol
//
// A request takes a free lane, of which both nodes have the same number. A lane
// has one request at a time and two counters in each direction, so nothing of
// one request is ever taken for another's.
//
//  1. The decode node writes a record into the lane at the prefill node: the
//     request's identity and its pages. The notice (number 2*lane) says that it
//     is there.
//  2. The prefill node computes. When a layer is ready it writes the layer's pages
//     straight to their places. When the layers up to this one have all been
//     placed, it gives a notice (number 2*lane): n notices mean that the first n
//     layers are there. Rails keep no order, so the notice is not attached to the
//     layer's own transfer: a later layer may be done first.
//  3. When nothing of the request is on its way any more, the prefill node writes
//     a record that says how it ended and how many layers it told of, with a
//     notice (number 2*lane+1). When the decode node has counted these layers too,
//     the lane is free.
//
// To cancel, the decode node gives a notice (number 2*lane+1). The prefill node
// cancels what is on its way, waits until that has ended, and goes to step 3. What
// has ended does not land any more: that is the engine's promise. So the record of
// step 3 is the confirmation, and pages can go to another request as soon as it
// has come. A cancellation may cross with the end of its request; each record of a
// request says how many were given in the lane before it.
//
// Counters are never set back. What is to be expected is always known from what
// was agreed before, and not read from a counter while notices may be under way.
//
// # When a node fails
//
// A decode node whose peer does not confirm in time leaves the peer: then no NIC
// of this node takes anything of it any more, and the pages are free as well. A
// prefill node that loses its peer has the computation cancelled.
package kvcache
