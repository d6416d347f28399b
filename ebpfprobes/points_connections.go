package ebpfprobes

// connectionPoints is the table of queue pairs' changes. _ib_modify_qp is what both ways
// to change one come to; it is static, and there in Linux 6.1 to 7.3.
var connectionPoints = []point{
	{role: "end of queue pairs", names: []string{"rdma_restrack_del", "rdma_restrack_commit_del"}, entry: "destroyed", reads: true, needed: true},
	{role: "birth of queue pairs", names: []string{"rdma_restrack_add"}, entry: "created", reads: true, needed: true},
	{role: "change of queue pairs", names: []string{"_ib_modify_qp"}, entry: "modify", exit: "modified", reads: true, needed: true},
}
