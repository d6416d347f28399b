// Package patterns holds what engines are used for, as programs to be read, run and
// copied. Each has its protocol in its documentation, and an example that runs on
// embedded devices: it needs no hardware and no privilege.
//
//   - kvcache: pages of a KV cache from a prefill node to a decode node, told layer by
//     layer, with cancellation after which pages can be used again.
//   - weights: tensors from the nodes that train to those that serve, by a static
//     schedule between two shardings.
//   - ring: all-gather, reduce-scatter and all-reduce of float32.
package patterns
