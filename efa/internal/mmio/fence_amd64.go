package mmio

// LoadFence keeps later loads behind earlier ones, where the memory was written
// by a device: call it between a completion's phase, loaded atomically, and its
// body. The processor keeps loads of ordinary memory in their order, and the
// atomic load keeps the compiler from changing it, so there is nothing to do.
func LoadFence() {}

// LoadsInOrder tells that LoadFence is not needed.
const LoadsInOrder = true
