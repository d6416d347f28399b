package verbs

// Opcode is what a send request does (enum ibv_wr_opcode).
type Opcode uint32

const (
	Write       Opcode = 0
	WriteImm    Opcode = 1
	Send        Opcode = 2
	SendImm     Opcode = 3
	Read        Opcode = 4
	CompareSwap Opcode = 5
	FetchAdd    Opcode = 6
	LocalInv    Opcode = 7
	BindMW      Opcode = 8
	SendInv     Opcode = 9
	TSO         Opcode = 10
	Flush       Opcode = 14
	AtomicWrite Opcode = 15
)

// SendFlags qualify a send request (enum ibv_send_flags).
type SendFlags uint32

const (
	Fence     SendFlags = 1 << 0 // wait for earlier reads and atomics
	Signaled  SendFlags = 1 << 1
	Solicited SendFlags = 1 << 2 // raise the peer's solicited event
	Inline    SendFlags = 1 << 3 // copy the data now; its buffer is free after Post
	IPCsum    SendFlags = 1 << 4
)
