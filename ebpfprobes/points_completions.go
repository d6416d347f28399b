package ebpfprobes

import "github.com/peerdirect/peerdirect/ebpfprobes/internal/provider"

// completionPoints is the table of completion events: functions of Linux 6.1 to 7.3.
// ib_uverbs_event_read, which both kinds of events pass, has a compiler's suffix.
var completionPoints = []point{
	{role: "event read", names: []string{"ib_uverbs_comp_event_read"},
		entry: "reading", exit: "read_end", reads: true, needed: true},
	{role: "event raised", names: []string{"ib_uverbs_comp_handler"},
		entry: "raised", reads: true, needed: true},
}

// userPoint is what is attached to a function of a provider's library.
type userPoint struct {
	entry, exit string // programs; "" is none
	cookie      uint64
	empty       bool // the function is called when nothing has completed, too
}

// userPoints is the table of the providers' functions. Opcodes are those of
// enum ibv_wr_opcode.
var userPoints = map[provider.Role]userPoint{
	provider.PollCQ:           {entry: "poll", exit: "poll_end", empty: true},
	provider.NextPoll:         {entry: "next", exit: "next_end"},
	provider.EndPoll:          {entry: "end"},
	provider.ReadOpcode:       {exit: "opcode_end"},
	provider.PostSend:         {entry: "post_send"},
	"wr_rdma_write":           {entry: "build", cookie: 0},
	"wr_rdma_write_imm":       {entry: "build", cookie: 1},
	"wr_send":                 {entry: "build", cookie: 2},
	"wr_send_imm":             {entry: "build", cookie: 3},
	"wr_rdma_read":            {entry: "build", cookie: 4},
	"wr_atomic_cmp_swp":       {entry: "build", cookie: 5},
	"wr_atomic_fetch_add":     {entry: "build", cookie: 6},
	"wr_local_inv":            {entry: "build", cookie: 7},
	"wr_bind_mw":              {entry: "build", cookie: 8},
	"wr_send_inv":             {entry: "build", cookie: 9},
	"wr_send_tso":             {entry: "build", cookie: 10},
	"wr_set_sge":              {entry: "set_sge"},
	"wr_set_sge_list":         {entry: "set_sge_list"},
	"wr_set_inline_data":      {entry: "set_inline"},
	"wr_set_inline_data_list": {entry: "set_sge_list"}, // struct ibv_data_buf: address, length
}
