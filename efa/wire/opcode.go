package wire

// Opcode is an admin command (enum efa_admin_aq_opcode).
type Opcode uint8

const (
	OpCreateQP            Opcode = 1
	OpModifyQP            Opcode = 2
	OpQueryQP             Opcode = 3
	OpDestroyQP           Opcode = 4
	OpCreateAH            Opcode = 5
	OpDestroyAH           Opcode = 6
	OpRegMR               Opcode = 7
	OpDeregMR             Opcode = 8
	OpCreateCQ            Opcode = 9
	OpDestroyCQ           Opcode = 10
	OpGetFeature          Opcode = 11
	OpSetFeature          Opcode = 12
	OpGetStats            Opcode = 13
	OpAllocPD             Opcode = 14
	OpDeallocPD           Opcode = 15
	OpAllocUAR            Opcode = 16
	OpDeallocUAR          Opcode = 17
	OpCreateEQ            Opcode = 18
	OpDestroyEQ           Opcode = 19
	OpAllocMR             Opcode = 20
	OpService             Opcode = 21
	OpCreateEventCounter  Opcode = 25
	OpDestroyEventCounter Opcode = 26
	OpAttachEventCounter  Opcode = 27
	OpModifyEventCounter  Opcode = 28
	OpDetachEventCounter  Opcode = 29
	MaxOpcode             Opcode = 29
)

func (o Opcode) String() string { return name(opcodeNames[:], int(o), "opcode") }

var opcodeNames = [...]string{
	OpCreateQP:            "CREATE_QP",
	OpModifyQP:            "MODIFY_QP",
	OpQueryQP:             "QUERY_QP",
	OpDestroyQP:           "DESTROY_QP",
	OpCreateAH:            "CREATE_AH",
	OpDestroyAH:           "DESTROY_AH",
	OpRegMR:               "REG_MR",
	OpDeregMR:             "DEREG_MR",
	OpCreateCQ:            "CREATE_CQ",
	OpDestroyCQ:           "DESTROY_CQ",
	OpGetFeature:          "GET_FEATURE",
	OpSetFeature:          "SET_FEATURE",
	OpGetStats:            "GET_STATS",
	OpAllocPD:             "ALLOC_PD",
	OpDeallocPD:           "DEALLOC_PD",
	OpAllocUAR:            "ALLOC_UAR",
	OpDeallocUAR:          "DEALLOC_UAR",
	OpCreateEQ:            "CREATE_EQ",
	OpDestroyEQ:           "DESTROY_EQ",
	OpAllocMR:             "ALLOC_MR",
	OpService:             "SERVICE",
	OpCreateEventCounter:  "CREATE_EVENT_COUNTER",
	OpDestroyEventCounter: "DESTROY_EVENT_COUNTER",
	OpAttachEventCounter:  "ATTACH_EVENT_COUNTER",
	OpModifyEventCounter:  "MODIFY_EVENT_COUNTER",
	OpDetachEventCounter:  "DETACH_EVENT_COUNTER",
}

// AdminStatus is how an admin command ended (enum efa_admin_aq_completion_status).
// The driver makes ENOMEM of 1, EOPNOTSUPP of 3 and EINVAL of the others.
type AdminStatus uint8

const (
	AdminSuccess                   AdminStatus = 0
	AdminResourceAllocationFailure AdminStatus = 1
	AdminBadOpcode                 AdminStatus = 2
	AdminUnsupportedOpcode         AdminStatus = 3
	AdminMalformedRequest          AdminStatus = 4
	AdminIllegalParameter          AdminStatus = 5
	AdminUnknownError              AdminStatus = 6
	AdminResourceBusy              AdminStatus = 7
)

func (s AdminStatus) String() string {
	names := [...]string{
		"SUCCESS", "RESOURCE_ALLOCATION_FAILURE", "BAD_OPCODE", "UNSUPPORTED_OPCODE",
		"MALFORMED_REQUEST", "ILLEGAL_PARAMETER", "UNKNOWN_ERROR", "RESOURCE_BUSY",
	}
	return name(names[:], int(s), "admin status")
}
