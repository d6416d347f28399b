package doctor

// rdmaChecks look at RDMA devices, their ports and what they take.
var rdmaChecks = []Check{}
