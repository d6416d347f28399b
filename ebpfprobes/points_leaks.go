package ebpfprobes

const endOfRDMAObjects = "end of RDMA objects"

// leakPoints is the table of objects' births and ends: functions of Linux 6.1 to 7.3.
// Ends come first, so that nothing is born that does not end; and none of them is shed
// alone. From 6.12 on queues and domains end by the second function, regions by the first.
var leakPoints = []point{
	{role: endOfRDMAObjects, names: []string{"rdma_restrack_del", "rdma_restrack_commit_del"}, entry: "untracked", reads: true, needed: true},
	{role: "birth of RDMA objects", names: []string{"rdma_restrack_add"}, entry: "tracked", reads: true, needed: true},
	{role: "end of dma-bufs", names: []string{"dma_buf_release"}, entry: "released", reads: true, needed: true},
	{role: "birth of dma-bufs", names: []string{"dma_buf_export"}, exit: "exported", cookie: returnsPointer, needed: true},
}
