package doctor

// rdmaChecks look at RDMA devices, their ports and what they take.
var rdmaChecks = []Check{
	{Name: "rdma-devices", Group: "rdma", Run: checkDevices,
		About: "RDMA devices, and NICs that could have one and do not"},
	{Name: "rdma-library", Group: "rdma", Run: checkLibrary, Live: true,
		About: "libibverbs and a provider for each device: without them programs see none"},
	{Name: "rdma-ports", Group: "rdma", Run: checkPorts,
		About: "state of each port, and why one is down"},
	{Name: "rdma-rate", Group: "rdma", Run: checkRates,
		About: "rate of each port against its equals, its lanes and its PCI Express link"},
	{Name: "rdma-gids", Group: "rdma", Run: checkGIDs,
		About: "addresses of each port: the GID that a routable connection takes"},
	{Name: "rdma-mtu", Group: "rdma", Run: checkMTU,
		About: "path MTU of each port, and what holds it down"},
	{Name: "roce-settings", Group: "rdma", Run: checkRoCE,
		About: "RoCE version, traffic class, flow control and congestion control, where files tell"},
	{Name: "rdma-firmware", Group: "rdma", Run: checkFirmware,
		About: "firmware of each device, and equal devices with different ones"},
	{Name: "rdma-counters", Group: "rdma", Run: checkCounters,
		About: "error counters of ports that are not zero, and those that rise"},
	{Name: "dmabuf-import", Group: "accelerators", Run: checkImport,
		About: "drivers that register dma-bufs: the way to accelerator memory"},
}
