package path

// driver is what the measurement needs of an accelerator's driver. Tests have one
// without hardware, which does asynchronous work in an order as bad as it can be.
type driver interface {
	// start loads the driver; devices is how many GPUs it shows.
	start() (devices int, version string, err error)
	open(ordinal int) (gpu, error)
	// bound gives pinned memory of a NUMA node.
	bound(g gpu, node, size int) ([]byte, error)
	unbound(g gpu, b []byte) error
}

// gpu is one GPU with a context of its own.
type gpu interface {
	facts() (GPU, error)
	canAccess(peer gpu) (bool, error)
	// link is what the driver says of the link to a peer.
	link(peer gpu) (rank int, atomics bool, err error)
	enable(peer gpu) error
	disable(peer gpu) error
	alloc(size uint64) (uint64, error)
	free(p uint64) error
	pinned(size int) ([]byte, error) // where the driver puts it
	unpinned(b []byte) error
	stream() (stream, error)
	event() (event, error)
	// toHost and toDevice copy from and to memory of any kind, and come back when
	// that is done, or staged.
	toHost(b []byte, from uint64) error
	toDevice(to uint64, b []byte) error
	close() error
}

// stream does its work in order. Copies are asynchronous.
type stream interface {
	done() (bool, error)
	wait(e event) error
	fill(p uint64, v byte, size uint64) error
	toPeer(to uint64, toGPU gpu, from uint64, fromGPU gpu, size uint64) error
	toHost(b []byte, from uint64) error
	toDevice(to uint64, b []byte) error
	close() error
}

// event is a mark in a stream of the same GPU.
type event interface {
	record(s stream) error
	close() error
}
