package wire

import "testing"

// What the data path does for one request, on ordinary memory.

func BenchmarkTxWrite(b *testing.B) {
	b.ReportAllocs()
	var e TxEntry
	for i := range b.N {
		e.Set(uint16(i), TxControl(IORDMAWrite)|TxAlways, 7, 1)
		e.SetPeer(0, 3, 0)
		e.SetQKey(0x1234)
		e.SetReqIDHigh(uint64(i))
		e.SetRemote(uint64(i)<<12, 4096, 9)
		e.SetLocal(uint64(i)<<12, 4096, 8)
	}
	sinkTx = e
}

func BenchmarkCQEPoll(b *testing.B) {
	b.ReportAllocs()
	var e WideCQE
	e.Base().SetRecv(1, 100, 2, 3, 4)
	e.Base().SetWord(MakeCQEWord(5, CompOK, MakeCQEFlags(true, RecvQueue, IORDMAWrite, true, false)))
	var sum uint32
	for range b.N {
		if w := e.Base().Word(); w.Phase() && w.Status() == CompOK {
			sum += uint32(w.ReqID()) + e.Length() + e.Base().Imm()
		}
	}
	sinkSum = sum
}

func BenchmarkSealChecksum(b *testing.B) {
	b.ReportAllocs()
	entry := make([]byte, SizeAQEntryV2)
	b.SetBytes(int64(len(entry)))
	for range b.N {
		SealChecksum(entry)
	}
}

var (
	sinkTx  TxEntry
	sinkSum uint32
)
