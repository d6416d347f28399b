package mmio

// LoadFence keeps later loads behind earlier ones, where the memory was written
// by a device: call it between a completion's phase, loaded atomically, and its
// body.
func LoadFence()

// LoadsInOrder tells that LoadFence is not needed.
const LoadsInOrder = false
