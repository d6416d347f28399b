package wire

// Adapters that make codecs of the data path's forms, by their setters and
// getters, so that they stand every test the structs stand.

type hotHead struct {
	ReqID   uint64
	Control TxControl
	DestQP  uint16
	Length  uint16
	Imm     uint32
	AH      uint16
	Hints   ProcessingHints
	QKey    uint32
}

func (h *hotHead) put(e *TxEntry) {
	e.Set(uint16(h.ReqID), h.Control, h.DestQP, h.Length)
	e.SetPeer(h.Imm, h.AH, h.Hints)
	e.SetQKey(h.QKey)
	e.SetReqIDHigh(h.ReqID)
}

func (h *hotHead) get(e *TxEntry) {
	*h = hotHead{e.ReqID64(), e.Control(), e.DestQP(), e.Length(), e.Imm(), e.AH(), e.Hints(), e.QKey()}
}

// A send of two buffers.
type hotSend struct {
	hotHead
	Buf0, Buf1 TxBuf
}

func (h *hotSend) Encode(b []byte) {
	e := (*TxEntry)(b)
	h.put(e)
	e.SetBuf(0, h.Buf0.Addr, h.Buf0.Length, h.Buf0.LKey)
	e.SetBuf(1, h.Buf1.Addr, h.Buf1.Length, h.Buf1.LKey)
}

func (h *hotSend) Decode(b []byte) {
	e := (*TxEntry)(b)
	h.get(e)
	h.Buf0, h.Buf1 = e.Buf(0), e.Buf(1)
}

type hotInline struct {
	hotHead
	Data [MaxInline]byte
}

func (h *hotInline) Encode(b []byte) {
	e := (*TxEntry)(b)
	h.put(e)
	*e.Inline() = h.Data
}

func (h *hotInline) Decode(b []byte) {
	e := (*TxEntry)(b)
	h.get(e)
	h.Data = *e.Inline()
}

type hotRDMA struct {
	hotHead
	Remote RemoteBuf
	Local  TxBuf
}

func (h *hotRDMA) Encode(b []byte) {
	e := (*TxEntry)(b)
	h.put(e)
	e.SetRemote(h.Remote.Addr, h.Remote.Length, h.Remote.RKey)
	e.SetLocal(h.Local.Addr, h.Local.Length, h.Local.LKey)
}

func (h *hotRDMA) Decode(b []byte) {
	e := (*TxEntry)(b)
	h.get(e)
	h.Remote, h.Local = e.Remote(), e.Local()
}

// A send of 80 bytes inline leaves the last 16 of its entry unused.
type hotWideInline struct {
	hotHead
	Data [MaxInlineWide]byte
}

func (h *hotWideInline) Encode(b []byte) {
	e := (*WideTxEntry)(b)
	*e = WideTxEntry{}
	h.put(e.Entry())
	*e.Inline() = h.Data
}

func (h *hotWideInline) Decode(b []byte) {
	e := (*WideTxEntry)(b)
	h.get(e.Entry())
	h.Data = *e.Inline()
}

type hotWideRDMAInline struct {
	hotHead
	Remote RemoteBuf
	Data   [MaxInlineWide]byte
}

func (h *hotWideRDMAInline) Encode(b []byte) {
	e := (*WideTxEntry)(b)
	h.put(e.Entry())
	e.Entry().SetRemote(h.Remote.Addr, h.Remote.Length, h.Remote.RKey)
	*e.RDMAInline() = h.Data
}

func (h *hotWideRDMAInline) Decode(b []byte) {
	e := (*WideTxEntry)(b)
	h.get(e.Entry())
	h.Remote = e.Entry().Remote()
	h.Data = *e.RDMAInline()
}

type hotRx struct {
	Addr        uint64
	ReqID       uint16
	Length      uint16
	LKey        uint32
	First, Last bool
}

func (h *hotRx) Encode(b []byte) {
	var f RxFlags
	if h.First {
		f |= RxFirst
	}
	if h.Last {
		f |= RxLast
	}
	(*RxEntry)(b).Set(h.ReqID, h.Addr, h.Length, h.LKey, f)
}

func (h *hotRx) Decode(b []byte) {
	e := (*RxEntry)(b)
	*h = hotRx{e.Addr(), e.ReqID(), e.Length(), e.LKey(), e.First(), e.Last()}
}

type hotWord struct {
	Status      CompStatus
	Phase       bool
	Queue       QueueType
	HasImm      bool
	Op          IOOp
	Unsolicited bool
}

func (h *hotWord) put(e *CQE, reqID uint16) {
	e.SetWord(MakeCQEWord(reqID, h.Status, MakeCQEFlags(h.Phase, h.Queue, h.Op, h.HasImm, h.Unsolicited)))
}

func (h *hotWord) get(e *CQE) {
	w := e.Word()
	f := w.Flags()
	*h = hotWord{w.Status(), w.Phase(), f.Queue(), f.HasImm(), f.Op(), f.Unsolicited()}
}

type hotTxCQE struct {
	hotWord
	ReqID uint64
	QP    uint16
}

func (h *hotTxCQE) Encode(b []byte) {
	e := (*CQE)(b)
	e.SetSend(h.QP, h.ReqID)
	h.put(e, uint16(h.ReqID))
}

func (h *hotTxCQE) Decode(b []byte) {
	e := (*CQE)(b)
	h.get(e)
	h.ReqID, h.QP = e.ReqID64(), e.QP()
}

type hotRxCQE struct {
	hotWord
	ReqID, QP, Length, AH, SrcQP uint16
	Imm                          uint32
}

func (h *hotRxCQE) Encode(b []byte) {
	e := (*CQE)(b)
	e.SetRecv(h.QP, h.Length, h.AH, h.SrcQP, h.Imm)
	h.put(e, h.ReqID)
}

func (h *hotRxCQE) Decode(b []byte) {
	e := (*CQE)(b)
	h.get(e)
	h.ReqID, h.QP, h.Length, h.AH, h.SrcQP, h.Imm = e.ReqID(), e.QP(), e.Length16(), e.AH(), e.SrcQP(), e.Imm()
}

// The second halves of 32-byte completions.
type hotLengthHi struct{ Hi uint16 }

func (h *hotLengthHi) Encode(b []byte) {
	e := (*WideCQE)(b)
	*e.Base() = CQE{}
	e.SetLengthHi(h.Hi)
}

func (h *hotLengthHi) Decode(b []byte) { h.Hi = (*WideCQE)(b).LengthHi() }

type hotSrcAddr struct{ GID GID }

func (h *hotSrcAddr) Encode(b []byte) {
	e := (*WideCQE)(b)
	*e.Base() = CQE{}
	e.SetSrcAddr(&h.GID)
}

func (h *hotSrcAddr) Decode(b []byte) { h.GID = *(*WideCQE)(b).SrcAddr() }

type hotCQDoorbell struct {
	Consumer uint16
	Sequence uint8
	Arm      bool
}

func (h *hotCQDoorbell) Encode(b []byte) {
	le.PutUint32(b, uint32(MakeCQDoorbell(h.Consumer, h.Sequence, h.Arm)))
}

func (h *hotCQDoorbell) Decode(b []byte) {
	d := CQDoorbell(le.Uint32(b))
	*h = hotCQDoorbell{d.Consumer(), d.Sequence(), d.Arm()}
}
