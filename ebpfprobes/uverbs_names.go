package ebpfprobes

import "fmt"

// writeCommands are those of write(): enum ib_uverbs_write_cmds of Linux 6.12's
// include/uapi/rdma/ib_user_verbs.h.
var writeCommands = []string{
	"get context", "query device", "query port", "alloc pd", "dealloc pd", "create ah", "modify ah", "query ah",
	"destroy ah", "reg mr", "reg smr", "rereg mr", "query mr", "dereg mr", "alloc mw", "bind mw", "dealloc mw",
	"create comp channel", "create cq", "resize cq", "destroy cq", "poll cq", "peek cq", "req notify cq", "create qp",
	"query qp", "modify qp", "destroy qp", "post send", "post recv", "attach mcast", "detach mcast", "create srq",
	"modify srq", "query srq", "destroy srq", "post srq recv", "open xrcd", "close xrcd", "create xsrq", "open qp",
}

// extendedCommands begin at IB_USER_VERBS_CMD_THRESHOLD, 50.
var extendedCommands = []string{
	"create flow", "destroy flow", "create wq", "modify wq", "destroy wq", "create rwq ind tbl", "destroy rwq ind tbl", "modify cq",
}

// uverbsObjects are those of ioctl() and their methods: include/uapi/rdma/
// rdma_user_ioctl_cmds.h of Linux 6.1 to 7.3.
var uverbsObjects = []struct {
	name    string
	methods []string
}{
	{"DEVICE", []string{"invoke write", "info handles", "query port", "get context", "query context", "query gid table", "query gid entry", "query port speed"}},
	{"PD", []string{"destroy"}},
	{"COMP_CHANNEL", []string{"create"}},
	{"CQ", []string{"create", "destroy"}},
	{"QP", []string{"create", "destroy", "attach comp cntr"}},
	{"SRQ", []string{"create", "destroy"}},
	{"AH", []string{"destroy"}},
	{"MR", []string{"dm reg", "destroy", "advise", "query", "reg dmabuf", "reg"}},
	{"MW", []string{"destroy"}},
	{"FLOW", []string{"destroy"}},
	{"XRCD", []string{"destroy"}},
	{"RWQ_IND_TBL", []string{"destroy"}},
	{"WQ", []string{"create", "destroy"}},
	{"FLOW_ACTION", []string{"esp create", "destroy", "esp modify"}},
	{"DM", []string{"alloc", "free"}},
	{"COUNTERS", []string{"create", "destroy", "read"}},
	{"ASYNC_EVENT", []string{"alloc"}},
	{"DMAH", []string{"alloc", "free"}},
	{"DMABUF", []string{"alloc"}},
	{"COMP_CNTR", []string{"create", "destroy", "modify", "read"}},
}

const (
	notTold    = 0xffff // of an object: a command of write()
	driversOwn = 0x1000 // bit of objects and methods (UVERBS_ID_DRIVER_NS)
)

// callName names a call of the uverbs interface.
func callName(object, method uint16, write bool) string {
	by := " (ioctl)"
	if write {
		by = " (write)"
	}
	if object == notTold {
		switch m := int(method); {
		case m < len(writeCommands):
			return writeCommands[m] + by
		case m >= 50 && m-50 < len(extendedCommands):
			return extendedCommands[m-50] + by
		case method == notTold:
			return "?" + by
		}
		return fmt.Sprintf("command %d%s", method, by)
	}
	if object&driversOwn != 0 {
		return fmt.Sprintf("driver's object %d: method %d%s", object&^driversOwn, method&^driversOwn, by)
	}
	if int(object) >= len(uverbsObjects) {
		return fmt.Sprintf("object %d: method %d%s", object, method, by)
	}
	o := uverbsObjects[object]
	if method&driversOwn != 0 {
		return fmt.Sprintf("%s: driver's method %d%s", o.name, method&^driversOwn, by)
	}
	if int(method) >= len(o.methods) {
		return fmt.Sprintf("%s: method %d%s", o.name, method, by)
	}
	return o.name + ": " + o.methods[method] + by
}

// eventNames are enum ib_event_type.
var eventNames = []string{
	"CQ_ERR", "QP_FATAL", "QP_REQ_ERR", "QP_ACCESS_ERR", "COMM_EST", "SQ_DRAINED", "PATH_MIG", "PATH_MIG_ERR",
	"DEVICE_FATAL", "PORT_ACTIVE", "PORT_ERR", "LID_CHANGE", "PKEY_CHANGE", "SM_CHANGE", "SRQ_ERR",
	"SRQ_LIMIT_REACHED", "QP_LAST_WQE_REACHED", "CLIENT_REREGISTER", "GID_CHANGE", "WQ_FATAL",
}

// statusNames are enum ib_wc_status.
var statusNames = []string{
	"SUCCESS", "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_EEC_OP_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR", "MW_BIND_ERR",
	"BAD_RESP_ERR", "LOC_ACCESS_ERR", "REM_INV_REQ_ERR", "REM_ACCESS_ERR", "REM_OP_ERR", "RETRY_EXC_ERR",
	"RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR", "REM_INV_RD_REQ_ERR", "REM_ABORT_ERR", "INV_EECN_ERR",
	"INV_EEC_STATE_ERR", "FATAL_ERR", "RESP_TIMEOUT_ERR", "GENERAL_ERR",
}

func nameOf(names []string, n uint16) string {
	if int(n) < len(names) {
		return names[n]
	}
	return fmt.Sprintf("?%d", n)
}
