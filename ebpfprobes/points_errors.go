package ebpfprobes

// commandFunctions are functions of drivers that carry out a command of the device and
// return a negative errno: of Linux 6.1 to 7.3. The order is that of cookies.
var commandFunctions = []string{
	"efa_com_create_qp", "efa_com_modify_qp", "efa_com_query_qp", "efa_com_destroy_qp",
	"efa_com_create_cq", "efa_com_destroy_cq", "efa_com_register_mr", "efa_com_dereg_mr",
	"efa_com_create_ah", "efa_com_destroy_ah", "efa_com_alloc_pd", "efa_com_dealloc_pd",
	"efa_com_alloc_uar", "efa_com_dealloc_uar", "efa_com_get_stats",
	"irdma_handle_cqp_op", "bnxt_qplib_rcfw_send_message", "erdma_post_cmd_wait",
}

// errorPoints is the table of errors. The order is that of attaching: what begins a call
// comes last.
var errorPoints = append(append([]point{
	{role: "events of devices", names: []string{"ib_dispatch_event"}, entry: "event_raised", reads: true},
	{role: "events of queues", names: []string{
		"ib_uverbs_qp_event_handler", "ib_uverbs_cq_event_handler",
		"ib_uverbs_srq_event_handler", "ib_uverbs_wq_event_handler",
	}, entry: "event_raised", reads: true},
	{role: "completions of rxe", names: []string{"rxe_cq_post"}, entry: "completion_posted", reads: true},
	{role: "commands of mlx5", tracepoint: "mlx5_core", entry: "mlx5_cmd"},
}, commandPoints()...), []point{
	{role: "calls", names: []string{"ib_uverbs_write"}, entry: "write_call", exit: "call_end", reads: true, needed: true},
	{role: "calls", names: []string{"ib_uverbs_ioctl"}, entry: "ioctl_call", exit: "call_end", reads: true, needed: true},
}...)

func commandPoints() (points []point) {
	for i, name := range commandFunctions {
		points = append(points, point{role: "commands of devices", names: []string{name}, exit: "command_end", cookie: uint64(i)})
	}
	return points
}
